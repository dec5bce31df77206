"""The protocol of beanstalkd, without IO: bytes in, commands out; answers in, bytes out."""
