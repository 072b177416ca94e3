"""A process outside the run that opens files or executes programs on request."""
import os
import socket

listener = socket.socket(socket.AF_UNIX)
listener.bind("outside")
listener.listen()
print("listening", flush=True)
asked, _ = listener.accept()
for line in asked.makefile():
    name, *flags = line.split()
    if flags:
        os.close(os.open(name, int(flags[0])))
        answer = "done"
    else:
        child = os.fork()
        if child == 0:
            try:
                os.execv("./" + name, [name])
            except OSError as error:
                os._exit(error.errno)
        answer = str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    asked.sendall((answer + "\n").encode())
