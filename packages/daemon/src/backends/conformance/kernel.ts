// System calls, sockets and files of the kernel that a sandbox may not use.
import { expect } from 'vitest'
import { type Check, inBox } from './subject.ts'

// Numbers as [x64, arm64]; arguments are zeros unless given. Each must fail with one of the errors named.
const REFUSED: Record<string, { numbers: readonly [number, number]; args?: string }> = {
  unshare: { numbers: [272, 97], args: '0x10000000' },
  setns: { numbers: [308, 268], args: '0, 0' },
  mount: { numbers: [165, 40], args: 'b"none", b"/tmp", b"tmpfs", 0, 0' },
  umount2: { numbers: [166, 39], args: 'b"/tmp", 2' },
  pivot_root: { numbers: [155, 41], args: 'b"/tmp", b"/tmp"' },
  bpf: { numbers: [321, 280] },
  keyctl: { numbers: [250, 219] },
  add_key: { numbers: [248, 217], args: 'b"user", b"x", b"y", 1, -3' },
  request_key: { numbers: [249, 218] },
  perf_event_open: { numbers: [298, 241] },
  userfaultfd: { numbers: [323, 282] },
  io_uring_setup: { numbers: [425, 425], args: '4, ctypes.create_string_buffer(256)' },
  open_by_handle_at: { numbers: [304, 265], args: '-100, ctypes.create_string_buffer(64), 0' },
  init_module: { numbers: [175, 105] },
  finit_module: { numbers: [313, 273] },
  kexec_load: { numbers: [246, 104] },
  reboot: { numbers: [169, 142], args: '0xfee1dead, 672274793, 0' },
  swapon: { numbers: [167, 224], args: 'b"/tmp/x", 0' },
  quotactl: { numbers: [179, 60] },
  syslog: { numbers: [103, 116], args: '3, ctypes.create_string_buffer(64), 64' },
  clone3: { numbers: [435, 435], args: 'ctypes.create_string_buffer(88), 88' },
  fsopen: { numbers: [430, 430], args: 'b"tmpfs", 0' },
  open_tree: { numbers: [428, 428], args: '-100, b"/", 1' },
  mount_setattr: { numbers: [442, 442] },
  'clone with a new user namespace': { numbers: [56, 220], args: '0x10000011' },
  'close_range with open files of its own': { numbers: [436, 436], args: '10000, 10000, 2' },
}

export const KERNEL: Record<string, Check> = {
  'system calls that change mounts, namespaces, keys or the kernel are refused, even for root': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const column = process.arch === 'arm64' ? 1 : 0
      const calls = Object.entries(REFUSED).map(
        ([name, { numbers, args }]) => `(${JSON.stringify(name)}, ${numbers[column]}, [${args ?? ''}])`,
      )
      const program = [
        'import ctypes, os',
        'libc = ctypes.CDLL(None, use_errno=True)',
        `for name, number, args in [${calls.join(', ')}]:`,
        '  result = libc.syscall(number, *(args + [0] * (6 - len(args))))',
        '  if result == 0 and name.startswith("clone"): os._exit(0)',
        '  print(name, "refused" if result == -1 and ctypes.get_errno() in (1, 38) else f"gave {result} errno {ctypes.get_errno()}")',
      ].join('\n')
      await box.asRoot(`cat > /tmp/calls.py <<'END'\n${program}\nEND`)
      const expected = Object.keys(REFUSED).map(name => `${name} refused`)
      expect((await box.asRoot('python3 /tmp/calls.py')).output.split('\n')).toEqual(expected)
      expect((await box.run('python3 /tmp/calls.py')).output.split('\n')).toEqual(expected)
    })
  },

  'ioctls that inject terminal input are refused, whatever the upper 32 bits of the request': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const number = process.arch === 'arm64' ? 29 : 16
      const program = [
        'import ctypes',
        'libc = ctypes.CDLL(None, use_errno=True)',
        'for request in (0x5412, 0x541c, 0x100005412, 0x5413):',
        `  result = libc.syscall(${number}, ctypes.c_long(0), ctypes.c_long(request), ctypes.create_string_buffer(64))`,
        '  print(hex(request), "refused" if result == -1 and ctypes.get_errno() in (1, 25, 38) else result)',
      ].join('\n')
      await box.run(`cat > /tmp/type.py <<'END'\n${program}\nEND`)
      expect((await box.run('python3 /tmp/type.py <&1')).output.split('\n')).toEqual([
        '0x5412 refused',
        '0x541c refused',
        '0x100005412 refused',
        '0x5413 0',
      ])
    })
  },

  'raw, packet, crypto and vsock sockets are refused, and unix, TCP and UDP sockets work': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const program = [
        'import socket',
        'def open(*how):',
        '  try: socket.socket(*how).close(); return "open"',
        '  except OSError as e: return "refused"',
        'print([open(2, 3, 1), open(2, 3, 255), open(10, 3, 58), open(17, 3, 0), open(38, 5, 0), open(40, 1, 0), open(2, 5, 132), open(16, 3, 9)])',
        'print([open(1, 1, 0), open(2, 1, 0), open(2, 2, 0), open(10, 1, 6), open(2, 2 | 0o4000 | 0o2000000, 17), open(16, 3, 0)])',
      ].join('\n')
      await box.asRoot(`cat > /tmp/sockets.py <<'END'\n${program}\nEND`)
      const { output } = await box.asRoot('python3 /tmp/sockets.py')
      expect(output).toBe(`[${Array(8).fill("'refused'").join(', ')}]\n[${Array(6).fill("'open'").join(', ')}]`)
    })
  },

  'kernel settings and host details in /proc and /sys are masked or read-only': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const masked = [
        'kcore',
        'keys',
        'timer_list',
        'kallsyms',
        'interrupts',
        'slabinfo',
        'vmallocinfo',
        'kpagecount',
        'kpageflags',
      ]
      for (const name of masked) expect((await box.asRoot(`head -c 20 /proc/${name} 2>/dev/null | wc -c`)).output).toBe('0')
      for (const path of ['/sys/firmware', '/sys/kernel', '/sys/module', '/sys/fs', '/sys/block', '/sys/power'])
        expect((await box.asRoot(`find ${path} ! -type d 2>/dev/null`)).output).toBe('')
      for (const path of [
        '/proc/sysrq-trigger',
        '/proc/dynamic_debug/control',
        '/proc/sys/kernel/core_pattern',
        '/proc/sys/vm/overcommit_memory',
        '/proc/sys/kernel/hostname',
        '/proc/irq/default_smp_affinity',
        '/sys/class/net/lo/mtu',
      ])
        expect(
          (await box.asRoot(`${isNull(path)} || (echo x > ${path}) 2>&1 | grep -oE "Read-only|Permission|No such"`)).output,
        ).toMatch(/^(masked|Read-only|Permission|No such)$/)
      // Of the files that belong to no process, none that only root may read is readable, and none is writable.
      const program = [
        'import os, stat',
        'def opens(path, flags):',
        '  try: os.close(os.open(path, flags | os.O_NONBLOCK)); return True',
        '  except OSError: return False',
        'entries = [e for e in os.scandir("/proc") if not e.name.isdigit() and not e.is_symlink() and e.name != "sys"]',
        'files = [e.path for e in entries if e.is_file()]',
        'files += [os.path.join(at, name) for e in entries if e.is_dir() for at, _, names in os.walk(e.path) for name in names]',
        'for path in files:',
        '  mode = os.lstat(path).st_mode',
        '  if not stat.S_ISREG(mode): continue',
        '  if not mode & 0o004 and opens(path, os.O_RDONLY): print("readable", path)',
        '  if mode & 0o222 and opens(path, os.O_WRONLY): print("writable", path)',
        'print(len(files) > 10)',
      ].join('\n')
      await box.asRoot(`cat > /tmp/proc.py <<'END'\n${program}\nEND`)
      expect((await box.asRoot('python3 /tmp/proc.py')).output).toBe('True')
    })
  },

  'device files cannot be created': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      for (const dir of ['/workspace', '/tmp', '/dev', '/run']) {
        expect((await box.asRoot(`mknod ${dir}/disk b 254 0`)).code).not.toBe(0)
      }
      expect(
        (
          await box.asRoot(
            'ls /dev | grep -vxE "core|fd|full|null|ptmx|pts|random|shm|stderr|stdin|stdout|tty|urandom|zero|console|mqueue"',
          )
        ).output,
      ).toBe('')
      expect((await box.run('mkfifo /tmp/pipe && echo ok; echo x > /dev/null && head -c 4 /dev/urandom | wc -c')).output).toBe(
        'ok\n4',
      )
    })
  },

  'an unprivileged program can bind a port below 1024': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      expect(
        (
          await box.run(
            'python3 -c \'import socket; s = socket.socket(); s.bind(("127.0.0.1", 443)); s.listen(); print("listening")\'',
          )
        ).output,
      ).toBe('listening')
    })
  },
}

/** Prints "masked" where the null device is mounted on a path. */
const isNull = (path: string) => `stat -c %t:%T ${path} 2>&1 | grep -qx 1:3 && echo masked`
