// A worker of jobs in plain JavaScript, without any package.
//
//   WORKER_URL=ws://127.0.0.1:8470/api/worker WORKER_TOKEN=... node worker.mjs
//
// Node 20 wants the flag --experimental-websocket. In a page it runs as it is, with the two values put in.

const url = process.env.WORKER_URL
const token = process.env.WORKER_TOKEN

// What is to be done: bytes in, bytes out. Here they are turned round.
async function solve(payload) {
  return payload.slice().reverse()
}

function work() {
  const socket = new WebSocket(url)
  socket.binaryType = "arraybuffer"
  let busy = false
  const say = (message) => socket.send(JSON.stringify(message))

  socket.onopen = () => say({ code: 0, name: "javascript", id: "javascript-1", token })

  socket.onmessage = async ({ data }) => {
    if (typeof data === "string") {
      // The only text that the server sends asks for the status.
      say({ code: 1, status: busy ? 0 : 1 })
      return
    }
    busy = true
    try {
      const result = await solve(new Uint8Array(data))
      busy = false
      socket.send(result)
    } catch (error) {
      busy = false
      say({ code: 4, info: String(error), logs: error.stack ?? null })
    }
  }

  // The server is gone, or sent us away: the reason says why. Come back in a second.
  socket.onclose = ({ code, reason }) => {
    console.error(`the connection ended: ${code} ${reason}`)
    setTimeout(work, 1000)
  }
}

work()
