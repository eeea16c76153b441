// The script images/build with fixture programs in place of debootstrap and apt-get: the layers that it makes, and its second run.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { parseDockerfile } from '../../packages/daemon/src/images/build/dockerfile/dockerfile.ts'
import { planBuild } from '../../packages/daemon/src/images/build/dockerfile/plan.ts'
import { CliHome } from './cli-home.ts'

// An image build runs many programs in sequence.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const NAMES = ['base', 'python', 'node', 'java', 'go']

/** Makes a root with busybox, in which apt-get writes a line for each package and removes a file. */
const DEBOOTSTRAP = `#!/bin/sh
root=$3
mkdir -p $root/usr/bin $root/usr/sbin $root/etc/apt/sources.list.d $root/etc/apt/apt.conf.d $root/etc/dpkg/dpkg.cfg.d $root/tmp $root/proc $root/dev
mkdir -p $root/usr/share/doc $root/usr/share/old $root/var/lib/apt/lists
cp /usr/bin/busybox $root/usr/bin/busybox
for name in sh cat chown echo grep head id ln ls mkdir printf rm sed sort touch; do ln -s busybox $root/usr/bin/$name; done
ln -s usr/bin $root/bin
echo 'root:x:0:0:root:/root:/bin/sh' >$root/etc/passwd
echo 'root:x:0:' >$root/etc/group
echo 'deb http://nowhere/debian suite main' >$root/etc/apt/sources.list
touch $root/usr/share/doc/manual $root/usr/share/old/one $root/usr/share/old/two
cat >$root/usr/bin/apt-get <<'X'
#!/bin/sh
case $1 in
  indextargets) echo http://nowhere/debian ;;
  install)
    for name; do case $name in install | -*) ;; *) echo "$name" >>/usr/share/installed ;; esac; done
    case "$*" in *git*) rm /usr/share/old/one ;; *) rm -r /usr/share/old ; printf '#!/bin/sh\\necho 3.11\\n' >/usr/bin/python3; busybox chmod 755 /usr/bin/python3 ;; esac ;;
esac
X
cat >$root/usr/sbin/useradd <<'X'
#!/bin/sh
echo 'sandbox:x:1000:1000::/home/sandbox:/bin/sh' >>/etc/passwd
echo 'sandbox:x:1000:' >>/etc/group
X
chmod 755 $root/usr/bin/apt-get $root/usr/sbin/useradd
`

let cli: CliHome

beforeAll(async () => {
  cli = await CliHome.open()
  const stubs = join(cli.home, 'stubs')
  mkdirSync(stubs)
  writeFileSync(join(stubs, 'debootstrap'), DEBOOTSTRAP, { mode: 0o755 })
})
afterAll(() => cli.close())

const environment = () => ({
  ...cli.env,
  PATH: `${join(cli.home, 'stubs')}:${cli.env.PATH}`,
  TMPDIR: join(cli.home, 'stubs'),
})
const build = (...args: string[]) =>
  execFileSync('sh', ['-c', '"$0" "$@" 2>&1', resolve('images/build'), ...args], { env: environment(), encoding: 'utf8' })

test('images/build prints its flags, and a hint if the steps of an engine have no network', () => {
  expect(build('--help')).toMatch(/images\/build \[--chroot\].*--fresh {4}build again/s)
  const stub = join(cli.home, 'no-network')
  const said = "W: Temporary failure resolving 'nowhere'"
  const cases = `*--json*) ;; 'image inspect'*) exit 1 ;; 'image import'*) cat >/dev/null ;; *) echo "${said}"; exit 3 ;;`
  writeFileSync(stub, `#!/bin/sh\ncase "$*" in ${cases} esac\n`, { mode: 0o755 })
  const { status, stderr } = spawnSync(resolve('images/build'), ['base'], {
    env: { ...environment(), SANDGLASS: stub },
    encoding: 'utf8',
  })
  expect(status).toBe(1)
  expect(stderr).toMatch(/base: image build failed\nimages: .*have no network: use --chroot .* images\.build_network: host/)
})

test('without an engine images are built in a chroot as layers, and a second run builds nothing', async () => {
  expect(build('--chroot', 'base', 'python')).toContain('python: import')
  expect(build('--chroot', 'base', 'python')).toBe('images: base: exists\nimages: python: exists\n')
  const inspect = async (name: string) =>
    JSON.parse((await cli.run(['image', 'inspect', `sandbox-runtime:${name}`, '--json'])).stdout)
  const [base, python] = [await inspect('base'), await inspect('python')]
  expect(base.layers).toHaveLength(2)
  expect(python.layers.slice(0, 2)).toEqual(base.layers)
  expect(python.config).toMatchObject({
    User: 'sandbox',
    WorkingDir: '/workspace',
    Labels: { 'sandglass.runtime': 'python3.11' },
  })
  expect(await cli.run(['new', 'box', '--image', 'sandbox-runtime:python'])).toMatchObject({ code: 0 })
  const { stdout } = await cli.run([
    'exec',
    'box',
    '-c',
    'id -un; pwd; python3; cat /usr/share/installed; ls -A1 /usr/share /usr/share/doc /tmp',
  ])
  const installed = [
    'bash',
    'ca-certificates',
    'coreutils',
    'curl',
    'git',
    'procps',
    'python-is-python3',
    'python3',
    'python3-pip',
    'python3-venv',
  ]
  expect(stdout.split('\n')).toEqual([
    'sandbox',
    '/workspace',
    '3.11',
    ...installed,
    '/tmp:',
    '',
    '/usr/share:',
    'doc',
    'installed',
    'man',
    '',
    '/usr/share/doc:',
    '',
  ])
  expect(readdirSync(join(cli.home, 'stubs'))).toEqual(['debootstrap'])
})

test.each(NAMES)('the Dockerfile of %s starts from the base that the script passes, and labels its runtime', name => {
  const text = readFileSync(`images/${name}/Dockerfile`, 'utf8')
  const plan = (buildArgs: Record<string, string>) => planBuild(parseDockerfile(name, text), { name, buildArgs, fetches: false })
  expect(plan({ BASE: 'given:1' }).bases).toEqual(['given:1'])
  expect(plan({}).bases).toEqual([
    { base: 'debian:bookworm-slim', node: 'sandbox-runtime:base-trixie' }[name] ?? 'sandbox-runtime:base',
  ])
  expect(/^LABEL sandglass.runtime=(.*)$/m.exec(text)?.[1]).toBe(
    { python: 'python3.11', node: 'nodejs20', java: 'java17', go: 'go1.21' }[name],
  )
  expect(text).toMatch(/^USER sandbox$/m)
})
