// Checks all files of /proc and /sys, because a list of files would be incomplete on the next kernel.
import { readdirSync, readFileSync } from 'node:fs'
import { expect } from 'vitest'
import { hasOwnKernel } from './host-view.ts'
import { type Box, type Check, inBox } from './subject.ts'

const BOOT_ID = '/proc/sys/kernel/random/boot_id'

/** Files that may change between two readings. Host-wide, because programs such as top, free and the C library need them: */
const HOST_WIDE = ['/proc/cpuinfo', '/proc/loadavg', '/proc/meminfo', '/proc/stat', '/proc/uptime']
/** of the host's network stack, because the kernel shows them to every process: */
const NETWORK_STACK = ['protocols', 'sockstat', 'sockstat6', 'softnet_stat', 'stat/rt_cache'].map(
  name => `/proc/self/net/${name}`,
)
/** of the machine itself: */
const OWN = [
  ...['/proc/sys/kernel/random/uuid', '/proc/sys/kernel/random/entropy_avail', '/proc/sys/kernel/ns_last_pid'],
  ...['dev', 'netlink', 'netstat', 'snmp', 'snmp6', 'unix'].map(name => `/proc/self/net/${name}`),
]

/** of gVisor, which counts its own memory, and lists filesystems in another order each time: */
const GVISOR = ['/proc/sentry-meminfo', '/proc/filesystems']

export const PROC_AND_SYS: Record<string, Check> = {
  'nothing in /proc and /sys names a device of the host or another machine': async (backend, subject) => {
    await inBox(backend, subject, {}, async other => {
      await inBox(backend, subject, {}, async box => {
        const foreign = (await hasOwnKernel(backend, subject)) ? [] : await devices(box)
        const names = [other.machine.id, other.machine.containerId, ...foreign].filter(Boolean)
        // The engine mounts folders of its machine into a container, and the kernel shows their devices.
        const spared =
          subject.strongest === 'sandbox' ? ['mounts', 'mountinfo', 'mountstats'].map(name => `/proc/self/${name}`) : []
        await box.asRoot(`cat > /tmp/names.py <<'END'\n${WALK}\n${namesProgram(names, spared)}\nEND`)
        expect((await box.asRoot('python3 /tmp/names.py')).output).toBe('done')
      })
    })
  },

  'counters in /proc and /sys show no activity of another machine, except the load of the host': async (backend, subject) => {
    await inBox(backend, subject, {}, async box => {
      await box.asRoot(`cat > /tmp/change.py <<'END'\n${WALK}\n${CHANGES}\nEND`)
      expect((await box.asRoot('python3 /tmp/change.py')).output).toBe('')
      await inBox(backend, subject, {}, async other => {
        await other.run(BUSY)
        const changed = (await box.asRoot('python3 /tmp/change.py')).output.split('\n').filter(Boolean)
        const named = [...HOST_WIDE, ...NETWORK_STACK, ...OWN, ...((await hasOwnKernel(backend, subject)) ? GVISOR : [])]
        expect(changed.filter(path => !named.includes(path))).toEqual([])
      })
    })
  },

  "the boot id is neither the host's nor another machine's": async (backend, subject) => {
    const seen = [readFileSync(BOOT_ID, 'utf8').trim()]
    for (const _ of [1, 2])
      await inBox(backend, subject, {}, async box => {
        const { output } = await box.asRoot(`cat ${BOOT_ID}`)
        expect(output).toMatch(subject.strongest === 'sandbox' ? /^$/ : /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
        expect(seen).not.toContain(output)
        if (output !== '') seen.push(output)
        const random = '/proc/sys/kernel/random/uuid'
        expect((await box.run(`[ ! -e ${random} ] || cat ${random} ${random} | sort -u | wc -l`)).output).toMatch(/^2?$/)
      })
  },
}

/** Disks and network interfaces of this host that the machine does not have. */
async function devices(box: Box): Promise<string[]> {
  const own = (await box.run('tail -n +3 /proc/net/dev | cut -d: -f1; findmnt -no SOURCE /workspace | grep -o "loop[0-9]*"'))
    .output
  const names = [...readdirSync('/sys/block'), ...readdirSync('/sys/class/net')]
  expect(names.length).toBeGreaterThan(0)
  return names.filter(name => !own.split(/\s+/).includes(name))
}

/** Files that belong to no process, and the files about the mounts and the network of this process. /proc/config.gz is skipped: it is compressed. */
const WALK = `
import hashlib, json, os, re, stat

def files():
    for top in ("/proc", "/sys", "/proc/self/net"):
        for at, folders, names in os.walk(top):
            if at == "/proc": folders[:] = [name for name in folders if not name.isdigit()]
            for name in names:
                if not os.path.islink(os.path.join(at, name)): yield os.path.join(at, name)
    for name in ("mounts", "mountinfo", "mountstats", "cgroup"): yield "/proc/self/" + name

def read(path):
    try:
        if path == "/proc/config.gz" or not stat.S_ISREG(os.lstat(path).st_mode): return b""
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError: return b""
    try: return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    except OSError: return b""
    finally: os.close(fd)
`

const namesProgram = (names: readonly string[], spared: readonly string[]) => `
names = re.compile(rb"(?<![A-Za-z0-9])(" + "|".join(map(re.escape, ${JSON.stringify(names)})).encode() + rb")(?![A-Za-z0-9])")
for path in files():
    if path in ${JSON.stringify(spared)}: continue
    found = names.search(path.encode()) or names.search(read(path))
    if found: print(path, found[0].decode())
print("done")`

/** The first run saves the digests of all files, and the second prints the files that differ. */
const CHANGES = `
now = {path: hashlib.sha256(read(path)).hexdigest() for path in files()}
if os.path.exists("/tmp/before"):
    before = json.load(open("/tmp/before"))
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path): print(path)
json.dump(now, open("/tmp/before", "w"))`

/** Uses the disk, the processor, memory, terminals, locks and names. */
const BUSY = [
  'dd if=/dev/zero of=/workspace/busy bs=1M count=32 conv=fsync 2>/dev/null',
  'python3 -c "import os; terminals = [os.openpty() for _ in range(4)]; text = bytes(32 << 20)"',
  'flock /workspace/lock find /usr/share -maxdepth 2 >/dev/null',
  'sha256sum /workspace/busy',
].join('; ')
