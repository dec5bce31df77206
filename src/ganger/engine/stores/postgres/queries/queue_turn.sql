UPDATE task SET rank = -rank WHERE queue = $1
