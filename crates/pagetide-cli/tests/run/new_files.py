import ctypes, fcntl, mmap, os, subprocess, sys, threading

nr_files = 0
SHORT, LONG = b'short' * 100, bytes(range(256)) * 2048


def create(flags=os.O_RDWR, mode=0o644):
    global nr_files
    nr_files += 1
    name = f'new{nr_files}'
    fd = os.open(name, flags | os.O_CREAT | os.O_EXCL, mode)
    assert os.write(fd, SHORT) == len(SHORT)
    return name, fd


def content(name):
    with open(name, 'rb') as file:
        return file.read()


def end(name, fd, expected):
    os.close(fd)
    assert content(name) == expected, (name, len(content(name)), len(expected))


for flags in os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_SYNC:
    for mode in 0o644, 0o444, 0o200, 0:
        # A write that makes the file long continues at the position.
        name, fd = create(flags, mode)
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND) \
            == flags & (os.O_ACCMODE | os.O_APPEND)
        assert os.write(fd, LONG) == len(LONG)
        assert os.write(fd, b'end') == 3
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND) \
            == flags & (os.O_ACCMODE | os.O_APPEND)
        if flags & os.O_ACCMODE == os.O_WRONLY:
            try:
                os.read(fd, 1)
                assert False, 'read'
            except OSError as error:
                assert error.errno == 9
        os.chmod(name, 0o644)
        end(name, fd, SHORT + LONG + b'end')

name, fd = create()
copy = os.dup(fd)
os.write(copy, b'copy')
os.write(fd, b'first')
os.close(copy)
end(name, fd, SHORT + b'copyfirst')

name, fd = create()
child = os.fork()
if child == 0:
    os.write(fd, LONG)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert os.lseek(fd, 0, os.SEEK_CUR) == len(SHORT + LONG)
os.write(fd, b'parent')
end(name, fd, SHORT + LONG + b'parent')

# A child inherits the descriptor, also one that the C library makes itself (system).
for run in (lambda line: subprocess.run(['sh', '-c', line], close_fds=False).returncode), os.system:
    name, fd = create()
    os.set_inheritable(fd, True)
    assert run(f'printf child >&{fd}') == 0
    os.write(fd, LONG)
    end(name, fd, SHORT + b'child' + LONG)

name, fd = create(os.O_WRONLY)
subprocess.run(['printf', 'child'], stdout=fd, check=True)
os.write(fd, b'parent')
end(name, fd, SHORT + b'childparent')

name, fd = create()
fcntl.lockf(fd, fcntl.LOCK_EX)
child = os.fork()
if child == 0:
    try:
        fcntl.lockf(os.open(name, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
os.write(fd, LONG)
end(name, fd, SHORT + LONG)

name, fd = create()
fcntl.flock(fd, fcntl.LOCK_EX)
other = os.open(name, os.O_RDWR)
try:
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert False, 'locked twice'
except BlockingIOError:
    pass
os.close(other)
end(name, fd, SHORT)

name, fd = create()
os.ftruncate(fd, 1 << 20)
mapped = mmap.mmap(fd, 1 << 20)
mapped[:5] = b'SHORT'
mapped.close()
end(name, fd, b'SHORT' + SHORT[5:] + bytes((1 << 20) - len(SHORT)))

name, fd = create()
os.lseek(fd, 3 << 20, os.SEEK_SET)
os.write(fd, b'far')
assert os.pread(fd, 5, 0) == SHORT[:5]
assert os.pwrite(fd, b'near', 0) == 4
end(name, fd, b'near' + SHORT[4:] + bytes((3 << 20) - len(SHORT)) + b'far')

# The same file, opened twice.
name, fd = create()
other = os.open(name, os.O_WRONLY | os.O_APPEND)
os.write(other, LONG)
assert os.read(fd, len(LONG)) == LONG
os.close(other)
end(name, fd, SHORT + LONG)

# Another process opens the file meanwhile.
name, fd = create()
subprocess.run(['sh', '-c', f'printf other >> {name}'], check=True)
os.lseek(fd, 0, os.SEEK_END)
os.write(fd, LONG)
end(name, fd, SHORT + b'other' + LONG)

# Copies, from the kernel's files and from managed ones.
for size in 1000, 100_000, 1_000_000:
    with open('source', 'wb', buffering=0) as file:
        file.write(LONG * (size // len(LONG) + 1))
        file.truncate(size)
    expected = content('source')
    for call in 'copy_file_range', 'sendfile':
        name, fd = create()
        source = os.open('source', os.O_RDONLY)
        while True:
            copied = os.copy_file_range(source, fd, 1 << 30) if call == 'copy_file_range' \
                else os.sendfile(fd, source, None, 1 << 30)
            if copied == 0:
                break
        os.close(source)
        end(name, fd, SHORT + expected)

# A fork beside a served mapping.
with open('large', 'wb', buffering=0) as file:
    file.write(LONG)
with open('large', 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
assert mapped[1000:1010] == LONG[1000:1010]
name, fd = create()
child = os.fork()
if child == 0:
    os._exit(os.write(fd, mapped[:]) != len(LONG))
assert os.waitpid(child, 0)[1] == 0
os.write(fd, mapped[:])
end(name, fd, SHORT + LONG + LONG)
mapped.close()

# A second thread may use the descriptor.
name, fd = create()
other = threading.Thread(target=lambda: os.write(fd, LONG))
other.start()
other.join()
end(name, fd, SHORT + LONG)

# Names change, and new files replace others.
for text in b'first', b'second' * 1000, LONG:
    with open('temporary', 'wb') as file:
        file.write(text)
    os.rename('temporary', 'final')
    assert content('final') == text
    with open('final', 'r+b') as file:
        file.seek(0, os.SEEK_END)
        file.write(text)
    assert content('final') == text * 2

name, fd = create()
os.unlink(name)
os.write(fd, LONG)
os.lseek(fd, 0, os.SEEK_SET)
assert os.read(fd, 1 << 20) == SHORT + LONG
os.close(fd)

# A new program can be executed at once.
with open('program', 'w') as file:
    file.write('#!/bin/sh\nexit 7\n')
os.chmod('program', 0o755)
assert subprocess.run(['./program']).returncode == 7

# A record lock by another descriptor stays when the file is long and could be managed.
name, fd = create(os.O_WRONLY)
reader = os.open(name, os.O_RDONLY)
fcntl.lockf(reader, fcntl.LOCK_SH | fcntl.LOCK_NB)
assert os.write(fd, LONG) == len(LONG)
take = f"""
import fcntl, os
try:
    fcntl.lockf(os.open('{name}', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    raise SystemExit(3)
"""
assert subprocess.run([sys.executable, '-c', take]).returncode == 3, 'the lock is lost'
os.close(reader)
end(name, fd, SHORT + LONG)

# A child that no fork handler has seen shares the descriptor.
libc = ctypes.CDLL(None)
if hasattr(libc, '_Fork'):
    for flags in os.O_RDWR, os.O_WRONLY | os.O_APPEND:
        name, fd = create(flags)
        os.set_inheritable(fd, True)
        child = libc._Fork()
        if child == 0:
            os.write(fd, LONG)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.write(fd, b'end') == 3
        end(name, fd, SHORT + LONG + b'end')

# The descriptor of a closed file is used again.
for nr in range(300):
    with open(f'many{nr}', 'wb', buffering=0) as file:
        file.write(SHORT)
assert all(content(f'many{nr}') == SHORT for nr in range(300))
print('ok')
