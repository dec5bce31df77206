/* A worker of jobs in C, with nothing but sockets: it turns the bytes of each job round.
 *
 *   cc -O2 -o worker worker.c && ./worker 127.0.0.1 8470 TOKEN
 *
 * It answers the server between jobs only: one whose jobs take longer than 30 s solves them in a process or thread of
 * its own, and goes on reading meanwhile.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };

static int line;

static void die(const char *why) {
    fprintf(stderr, "worker: %s\n", why);
    exit(1);
}

static void get(void *into, size_t size) {
    for (char *at = into; size > 0;) {
        ssize_t got = read(line, at, size);
        if (got <= 0) die("the connection ended");
        at += got;
        size -= (size_t)got;
    }
}

static void put(const void *from, size_t size) {
    for (const char *at = from; size > 0;) {
        ssize_t sent = write(line, at, size);
        if (sent <= 0) die("the connection ended");
        at += sent;
        size -= (size_t)sent;
    }
}

/* One frame from us: a head, a mask, and the masked bytes. */
static void send_frame(int opcode, unsigned char *data, size_t size) {
    unsigned char head[14] = {(unsigned char)(0x80 | opcode)}, mask[4];
    size_t length = 2, extra = size < 126 ? 0 : size < 65536 ? 2 : 8;
    head[1] = (unsigned char)(0x80 | (extra == 0 ? size : extra == 2 ? 126 : 127));
    for (size_t i = extra; i-- > 0;) head[length++] = (unsigned char)(size >> (8 * i));
    for (int i = 0; i < 4; i++) head[length++] = mask[i] = (unsigned char)rand();
    for (size_t i = 0; i < size; i++) data[i] ^= mask[i % 4];
    put(head, length);
    put(data, size);
}

static void say(const char *text) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    send_frame(TEXT, (unsigned char *)copy, strlen(copy));
}

/* The next message, joined from its frames; pings on the way are answered. */
static unsigned char *receive(int *opcode, size_t *size) {
    unsigned char *whole = NULL;
    *size = 0;
    for (;;) {
        unsigned char head[2], more[8];
        get(head, 2);
        size_t length = head[1] & 0x7f, extra = length < 126 ? 0 : length == 126 ? 2 : 8;
        if (extra > 0) {
            get(more, extra);
            length = 0;
            for (size_t i = 0; i < extra; i++) length = length << 8 | more[i];
        }
        int kind = head[0] & 0x0f;
        unsigned char *frame = malloc(length + 1);
        if (frame == NULL) die("no memory");
        get(frame, length);
        if (kind == CLOSE) {
            frame[length] = 0;
            die(length > 2 ? (char *)frame + 2 : "the server closed");
        }
        if (kind == PING) send_frame(PONG, frame, length);
        if (kind >= CLOSE) {
            free(frame);
            continue;
        }
        if (kind != 0) *opcode = kind;
        whole = realloc(whole, *size + length + 1);
        if (whole == NULL) die("no memory");
        memcpy(whole + *size, frame, length);
        *size += length;
        free(frame);
        if (head[0] & 0x80) return whole;
    }
}

static void dial(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &hints, &found) != 0) die("no such host");
    line = socket(found->ai_family, found->ai_socktype, 0);
    if (line < 0 || connect(line, found->ai_addr, found->ai_addrlen) != 0) die("cannot connect");
    char text[1024], end[5] = "";
    snprintf(text, sizeof text,
             "GET /api/worker HTTP/1.1\r\nHost: %s:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YSB3b3JrZXIsIGluIEMuLg==\r\n\r\n", host, port);
    put(text, strlen(text));
    get(text, 12);
    if (memcmp(text + 9, "101", 3) != 0) die("the server does not take workers here");
    while (memcmp(end, "\r\n\r\n", 4) != 0) {
        memmove(end, end + 1, 3);
        get(end + 3, 1);
    }
}

int main(int count, char **words) {
    if (count != 4) die("give host, port and token");
    srand((unsigned)time(NULL) ^ (unsigned)getpid());
    dial(words[1], words[2]);
    char hello[1024];
    snprintf(hello, sizeof hello, "{\"code\":0,\"name\":\"c\",\"id\":\"c-1\",\"token\":\"%s\"}", words[3]);
    say(hello);
    for (;;) {
        int opcode = 0;
        size_t size;
        unsigned char *message = receive(&opcode, &size);
        if (opcode == TEXT) {
            say("{\"code\":1,\"status\":1}");
        } else {
            for (size_t i = 0; i < size / 2; i++) {
                unsigned char swapped = message[i];
                message[i] = message[size - 1 - i];
                message[size - 1 - i] = swapped;
            }
            send_frame(BINARY, message, size);
        }
        free(message);
    }
}
