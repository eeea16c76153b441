// Isolation from the host and from other machines.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, homedir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { ancestor, hasOwnKernel, hostProcesses, openFiles, seenAs, sleepLength } from './host-view.ts'
import { boxOf, type Check, inBox, specOf, startsInTime } from './subject.ts'

const GET_NO_NEW_PRIVS = '39, 0, 0, 0, 0'
const CANARY = 'canary-7f3a9c'

export const ISOLATION: Record<string, Check> = {
  'loopback is the only interface, with 127.0.0.53 on it': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      expect((await box.run('cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d " "')).output).toBe('lo')
      expect((await box.run('cat /proc/net/route | tail -n +2')).output).toBe('')
      const connect = (address: string) =>
        `python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("${address}", 53)); print(s.getsockname()[0])' 2>&1 | tail -1`
      expect((await box.run(connect('127.0.0.53'))).output).toMatch(/^127\.0\.0\.(1|53)$/)
      expect(
        (await box.run('python3 -c \'import socket; s = socket.socket(); s.bind(("127.0.0.53", 53)); print("bound")\'')).output,
      ).toBe('bound')
      for (const address of ['1.1.1.1', '169.254.169.254'])
        expect((await box.run(connect(address))).output).toMatch(/Network is unreachable|No route to host/)
    })
  },

  'root in a machine is not root on the host': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const [asRoot, asUser] = [sleepLength(), sleepLength()]
      await box.asRoot(`sleep ${asRoot} & true`)
      await box.run(`sleep ${asUser} & true`)
      const [root, user] = [(await seenAs(backend, subject, box, asRoot)).uid, (await seenAs(backend, subject, box, asUser)).uid]
      expect(root).toBeGreaterThan(0)
      expect(root).not.toBe(process.getuid?.())
      if (subject.strongest === undefined) {
        expect((await box.asRoot('id -u')).output).toBe('0')
        expect(user).toBe((await hasOwnKernel(backend, subject)) ? root : root + 1000)
      } else {
        await expect(box.link.request('shell.create', { name: 'r', user: 'root' })).rejects.toThrow('nobody is root')
        expect((await box.asRoot('id -u; sudo -n id -u 2>&1 | grep -c "^0$"')).output).toBe('1000\n0')
      }
    })
  },

  'two machines have different user ids on the host': async (backend, subject) => {
    await inBox(backend, subject, {}, async one => {
      await inBox(backend, subject, {}, async two => {
        const lengths = [sleepLength(), sleepLength()]
        await one.asRoot(`sleep ${lengths[0]} & true`)
        await two.asRoot(`sleep ${lengths[1]} & true`)
        const [first, second] = [
          await seenAs(backend, subject, one, lengths[0] ?? 0),
          await seenAs(backend, subject, two, lengths[1] ?? 0),
        ]
        expect(first.uid).not.toBe(second.uid)
      })
    })
  },

  'setuid programs grant no privileges': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      await box.asRoot('cp /bin/bash /workspace/sh && chmod 4755 /workspace/sh')
      expect((await box.run('./sh -p -c "id -u; grep CapEff /proc/self/status"')).output).toBe('1000\nCapEff:\t0000000000000000')
      expect((await box.run('grep CapEff /proc/self/status')).output).toBe('CapEff:\t0000000000000000')
      expect((await box.run(`python3 -c 'import ctypes; print(ctypes.CDLL(None).prctl(${GET_NO_NEW_PRIVS}))'`)).output).toBe('1')
    })
  },

  'host files are not visible': async (backend, subject) => {
    const canaries = [homedir(), '/root', '/home', '/tmp', '/var/tmp', '/opt', '/srv', '/mnt', '/run', '/etc'].flatMap(plant)
    try {
      expect(canaries.length).toBeGreaterThan(0)
      await inBox(backend, subject, {}, async box => {
        for (const path of canaries) expect((await box.asRoot(`cat ${path}`)).output).toContain('No such file')
        const search =
          'find / \\( -path /proc -o -path /usr -o -path /sys \\) -prune -o -name "*canary-7f3a9c*" -print 2>/dev/null; find /home /root /var /opt /srv /mnt /run /etc -type s 2>/dev/null; ls -A /root /home'
        expect((await box.asRoot(search)).output).toBe('/home:\nsandbox\n\n/root:')
        expect(
          (await box.asRoot('cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ssh_host_rsa_key 2>&1 | grep -vc "No such file"'))
            .output,
        ).toBe('0')
        expect((await box.asRoot('cut -d: -f1 /etc/passwd | paste -sd,')).output).toBe('root,sandbox,nobody')
      })
    } finally {
      for (const path of canaries) rmSync(join(path, '..'), { recursive: true, force: true })
    }
  },

  'root in a machine cannot read files in /usr that only root may read on the host': async (backend, subject) => {
    const [path] = plant('/usr/local/share')
    if (path === undefined) throw new Error('no file could be planted in /usr/local/share: skip this check')
    try {
      chmodSync(path, 0o600)
      await inBox(backend, subject, {}, async box => {
        expect((await box.asRoot(`cat ${path}`)).output).toMatch(/Permission denied|No such file/)
      })
    } finally {
      rmSync(join(path, '..'), { recursive: true, force: true })
    }
  },

  'host processes are not visible': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const { output } = await box.asRoot("ls /proc | grep -c '^[0-9]'; tr '\\0' ' ' < /proc/1/cmdline")
      expect(Number(output.split('\n')[0])).toBeLessThan(12)
      expect(output).toContain('/.sandglass/runner')
      expect(hostProcesses().some(({ pid }) => pid === process.pid)).toBe(true)
    })
  },

  'files and processes of another machine are not visible': async (backend, subject) => {
    await inBox(backend, subject, {}, async one => {
      const spec = specOf(subject)
      const two = boxOf(await backend.start(spec, startsInTime(subject)), spec, subject)
      try {
        await one.run(
          `echo secret > /workspace/${CANARY}; echo secret > /tmp/${CANARY}; echo secret > ~/${CANARY}; echo secret > /dev/shm/${CANARY}; sleep 98765 & true`,
        )
        expect(
          (
            await two.asRoot(
              `find / \\( -path /proc -o -path /usr -o -path /sys \\) -prune -o -name "*${CANARY}*" -print 2>/dev/null; ls -A /workspace /tmp /home/sandbox /dev/shm | grep canary`,
            )
          ).output,
        ).toBe('')
        expect((await two.asRoot('pgrep -cx sleep')).output).toBe('0')
        expect((await two.asRoot('ipcs -m | grep -c 0x')).output).toBe('0')
      } finally {
        two.link.close()
        await two.machine.destroy()
      }
    })
  },

  'disks, paths and boot parameters of the host are not visible': async (backend, subject) => {
    await inBox(backend, subject, {}, async other => {
      await inBox(backend, subject, {}, async box => {
        for (const path of ['/proc/diskstats', '/proc/partitions', '/proc/cmdline']) {
          const { output } = await box.asRoot(`cat ${path} 2>/dev/null`)
          if (await hasOwnKernel(backend, subject)) expect(output).not.toBe(readFileSync(path, 'utf8').trim())
          else expect(output).toBe('')
        }
        const shown = (await box.asRoot('find /sys -type f -exec cat {} + ; find /sys; cat /proc/self/mountinfo')).output
        expect(shown).not.toMatch(/loop\/|backing_file|sess_|sandglass-oci-/)
        expect(shown).not.toContain(other.machine.id)
        const count = (await box.run('cat /sys/devices/system/cpu/online; getconf _NPROCESSORS_CONF')).output
        const hosts = `${readFileSync('/sys/devices/system/cpu/online', 'utf8')}${cpus().length}`
        expect((await hasOwnKernel(backend, subject)) ? ['0\n1', hosts] : [hosts]).toContain(count)
      })
    })
  },

  'inotify and file locks on shared files do not reach across machines': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      await box.asRoot(`cat > /tmp/watch.py <<'END'\n${WATCH}\nEND`)
      await box.asRoot('python3 /tmp/watch.py > /tmp/seen 2>&1 & until grep -q ready /tmp/seen; do sleep 0.02; done')
      await inBox(backend, subject, {}, async other => {
        const lock = 'flock -n /usr/bin/env flock -n /etc/passwd flock -n /.sandglass/runner factor 6'
        expect((await other.run(lock)).output).toBe('6: 2 3')
      })
      readFileSync('/usr/bin/shuf')
      const seen = (
        await box.run('tac /dev/null; echo done > /tmp/stop; until grep -qx over /tmp/seen; do sleep 0.02; done; cat /tmp/seen')
      ).output.split('\n')
      expect(seen).toContain('tac')
      for (const name of ['factor', 'shuf', 'flock', 'runner']) expect(seen).not.toContain(name)
    })
  },

  'a read-only root stays read-only, even for root': async (backend, subject) => {
    await inBox(backend, subject, { readonlyRootfs: true }, async box => {
      for (const path of ['/x', '/etc/x', '/usr/x', '/usr/bin/x', '/var/x', '/root/x', '/.sandglass/x'])
        expect((await box.asRoot(`touch ${path}`)).output).toContain('Read-only file system')
      expect((await box.asRoot('echo 1.2.3.4 evil >> /etc/hosts')).output).toMatch(/Read-only file system|Permission denied/)
      for (const target of ['/', '/usr', '/etc/hosts', '/proc/sys'])
        expect((await box.asRoot(`mount -o remount,rw,bind ${target}`)).code).not.toBe(0)
      expect((await box.asRoot('umount /etc/hosts')).code).not.toBe(0)
      for (const path of ['/workspace/x', '/tmp/x', '/home/sandbox/x']) expect((await box.run(`touch ${path}`)).code).toBe(0)
    })
  },

  'changes to a writable root are visible only in their own machine': async (backend, subject) => {
    await inBox(backend, subject, { readonlyRootfs: false }, async box => {
      const change =
        'echo mine > /etc/canary && echo mine > /usr/share/canary-7f3a9c && rm /usr/bin/env && mkdir /opt/made && echo ok'
      expect((await box.asRoot(change)).output).toBe('ok')
      expect(
        (await box.asRoot('cat /etc/canary /usr/share/canary-7f3a9c; ls /usr/bin/env; stat -c %U /usr/bin/bash')).output,
      ).toMatch(/^mine\nmine\n.*No such file or directory\nroot$/)
      expect((await box.run('touch /usr/x')).output).toContain('Permission denied')
      box.link.close()
      await box.machine.stop()
      const again = boxOf(await backend.start(box.spec, startsInTime(subject)), box.spec, subject)
      expect((await again.asRoot('cat /etc/canary')).output).toBe('mine')
      again.link.close()
      await inBox(backend, subject, {}, async other => {
        expect((await other.run('ls /usr/bin/env /etc/canary /usr/share/canary-7f3a9c 2>/dev/null')).output).toBe('/usr/bin/env')
      })
    })
  },

  'root cannot move or replace the mount points of a writable root': async (backend, subject) => {
    await inBox(backend, subject, { readonlyRootfs: false }, async box => {
      const program = [
        'import os',
        'for path in ("/.sandglass", "/home", "/etc", "/workspace", "/usr"):',
        '  try: os.rename(path, "/moved"); print(path, "moved")',
        '  except OSError as e: print(path, e.errno in (16, 18))',
      ].join('\n')
      const kept = ['/.sandglass', '/home', '/etc', '/workspace', '/usr'].map(path => `${path} True`)
      expect((await box.asRoot(`python3 -c '${program}'`)).output.split('\n')).toEqual(kept)
      await box.asRoot('rm -rf /home /.sandglass; ln -s /tmp /home; ln -s /tmp /.sandglass')
      await box.run('echo kept > ~/f')
      box.link.close()
      await box.machine.stop()
      const again = boxOf(await backend.start(box.spec, startsInTime(subject)), box.spec, subject)
      expect((await again.run('cat /home/sandbox/f; test -L /home; echo $?')).output).toBe('kept\n1')
      again.link.close()
    })
  },

  'no file descriptor of the daemon leaks into a machine': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      const length = sleepLength()
      await box.run(`sleep ${length} & true`)
      const { pid } = await seenAs(backend, subject, box, length)
      const own = await hasOwnKernel(backend, subject)
      const held = openFiles(own ? pid : ancestor(pid, '/.sandglass/runner'))
      expect(held.length).toBeGreaterThan(3)
      // A machine with its own kernel has its disks open, which are files of the host.
      const disks = new RegExp(`/images/|/${box.machine.id}/disk\\.`)
      // gVisor opens the sandbox's files itself, in a root of its own.
      const inside = /^\/(null|root(\/.*)?)?$/
      const usual = /^(socket:|pipe:|anon_inode:|\/dev\/(null|ptmx|pts\/|kvm)|\/memfd:|\/proc\/1\/)/
      expect(held.filter(target => !usual.test(target) && !(own && (disks.test(target) || inside.test(target))))).toEqual([])
    })
  },

  'secrets in the environment appear in no command line on the host': async (backend, subject) => {
    const secret = `sk-${Math.random().toString(36).slice(2)}`
    await inBox(backend, subject, { env: { API_KEY: secret } }, async box => {
      expect((await box.run('echo $API_KEY')).output).toBe(secret)
      const lines = hostProcesses().map(({ argv }) => argv)
      expect(lines.filter(argv => argv.includes(secret) || argv.includes(box.machine.token))).toEqual([])
    })
  },
}

/** Locks files of the image and prints the names of those that are opened meanwhile. */
const WATCH = [
  'import ctypes, fcntl, os, select',
  'libc = ctypes.CDLL(None)',
  'watch = libc.inotify_init()',
  'for path in (b"/usr/bin", b"/etc", b"/.sandglass"): assert libc.inotify_add_watch(watch, path, 0x20) > 0',
  'held = [os.open(path, os.O_RDONLY) for path in ("/usr/bin/env", "/etc/passwd", "/.sandglass/runner")]',
  'os.read(watch, 65536)',
  'for fd in held: fcntl.flock(fd, fcntl.LOCK_EX)',
  'print("ready", flush=True)',
  'names = set()',
  'stopping = False',
  'while not stopping:',
  '  stopping = os.path.exists("/tmp/stop")',
  '  if not select.select([watch], [], [], 0.01)[0]: continue',
  '  events = os.read(watch, 65536)',
  '  while events:',
  '    size = int.from_bytes(events[12:16], "little")',
  '    names.add(events[16:16 + size].rstrip(b"\\0").decode())',
  '    events = events[16 + size:]',
  'print("\\n".join([*sorted(names), "over"]), flush=True)',
].join('\n')

/** Creates a file with a known name in a new folder below `dir`. Empty where this process may not. */
function plant(dir: string): string[] {
  try {
    const folder = mkdtempSync(join(dir, `${CANARY}-`))
    const path = join(folder, CANARY)
    writeFileSync(path, 'canary\n')
    chmodSync(folder, 0o755)
    return [path]
  } catch (error) {
    if (error instanceof Error && 'code' in error) return []
    throw error
  }
}
