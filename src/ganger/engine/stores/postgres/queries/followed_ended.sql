DELETE FROM followed WHERE until <= $1
