import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { extract } from 'tar-stream'
import { describe, expect, it, vi } from 'vitest'
import { until } from '../../../testing/daemon.fixture.ts'
import { type BuildDaemon, type BuildDaemonOptions, buildDaemon, smallImage } from '../../testing/build-daemon.fixture.ts'

// Each RUN starts a sandbox.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const base = await smallImage()
const RANDOM = '/proc/sys/kernel/random/uuid'

async function daemonWithBase(options: BuildDaemonOptions = {}): Promise<BuildDaemon> {
  const daemon = await buildDaemon(null, options)
  await daemon.importImage(base, 'small:1')
  return daemon
}

describe('a build without an engine', () => {
  it('of two stages with COPY, RUN, ENV and USER makes an image that runs', async () => {
    const daemon = await daemonWithBase()
    const built = await daemon.build(
      {
        Dockerfile: [
          'ARG BASE=nothing',
          `FROM ${'$'}{BASE} AS maker`,
          'ARG GREETING',
          'COPY src /src',
          'RUN cat /src/a /src/deep/b > /made && \\',
          '  # a comment in the middle',
          '  echo "$GREETING" >> /made',
          'FROM $BASE',
          'WORKDIR /opt/app',
          'COPY --from=maker /made .',
          'ENV FROM_BUILD=yes',
          'RUN id -u > builder; rm /usr/bin/wc',
          'USER sandbox',
          'CMD ["sh"]',
        ].join('\n'),
        'src/a': 'A',
        'src/deep/b': 'B\n',
      },
      { query: { reference: 'app:1' }, args: { BASE: 'small:1', GREETING: 'hello' } },
    )
    expect(built.error).toBeUndefined()
    expect(built.done).toMatchObject({
      cached: false,
      image: {
        references: ['docker.io/library/app:1'],
        source: 'build',
        config: { Cmd: ['sh'], WorkingDir: '/opt/app', User: 'sandbox' },
      },
    })
    const command = 'cat /opt/app/made /opt/app/builder; echo $FROM_BUILD; ls /src /usr/bin/wc 2>&1'
    expect(await daemon.run('app:1', 'oci', command)).toBe(
      'AB\nhello\n0\nyes\nls: /src: No such file or directory\nls: /usr/bin/wc: No such file or directory',
    )
  })

  it('keeps owners, modes, links, deletions and replaced folders of its steps', async () => {
    const daemon = await daemonWithBase()
    const built = await daemon.build(
      {
        Dockerfile: [
          'FROM small:1',
          'RUN mkdir /d && echo old > /d/old && echo other > /other',
          'RUN busybox rm -r /d && mkdir /d && echo new > /d/new && busybox rm /other',
          'RUN echo s > /s && busybox chown 33:44 /s && chmod 4751 /s && busybox ln /s /hard && busybox ln -s /etc/passwd /soft',
          'RUN chmod 700 /opt/closed; mkdir -p /var/lib/x; chmod 1777 /var/lib/x; echo kept > /tmp/kept; mkdir /workspace; echo w > /workspace/w; true',
          'COPY --chown=sandbox:44 --chmod=640 f /var/lib/x/f',
          'COPY f /soft-folder/f',
          'USER 33:44',
          'RUN id > /var/lib/x/id; id -u; cat /etc/resolv.conf > /dev/null',
          'LABEL a.b="c d" e=f',
          'EXPOSE 80 53/udp',
          'VOLUME /data',
          'STOPSIGNAL SIGINT',
          'ENTRYPOINT ["/bin/sh"]',
          'CMD -c true',
        ].join('\n'),
        f: 'file',
      },
      { query: { reference: 'app:1' } },
    )
    expect(built.error).toBeUndefined()
    expect(built.output).toContain('33\n')
    expect(built.done?.image.config).toMatchObject({
      User: '33:44',
      Labels: { 'a.b': 'c d', e: 'f' },
      ExposedPorts: { '80/tcp': {}, '53/udp': {} },
      Volumes: { '/data': {} },
      StopSignal: 'SIGINT',
      Entrypoint: ['/bin/sh'],
      Cmd: ['/bin/sh', '-c', '-c true'],
    })
    const show =
      'cd /; ls -1 d other 2>&1; stat -c "%u:%g %a %h" s hard; busybox readlink soft; stat -c "%u:%g %a %n" var/lib/x var/lib/x/f tmp; cat var/lib/x/id soft-folder/f'
    expect(await daemon.run('app:1', 'oci', show)).toBe(
      [
        'ls: other: No such file or directory',
        'd:',
        'new',
        '33:44 4751 2',
        '33:44 4751 2',
        '/etc/passwd',
        '0:0 1777 var/lib/x',
        '1000:44 640 var/lib/x/f',
        '0:0 1777 tmp',
        'uid=33 gid=44 groups=44',
        'file',
      ].join('\n'),
    )
    const names = (await layerNames(daemon, built.done?.image.layers.at(4)?.digest ?? '')).join(' ')
    expect(names).toContain('tmp/kept')
    expect(names).toContain('workspace/w')
    expect(names).not.toMatch(/resolv\.conf|\.sandglass|proc|etc\/hosts/)
  })

  it('copies folders, patterns and links of the context, and follows links of the image', async () => {
    const daemon = await daemonWithBase({})
    const built = await daemon.build(
      [
        {
          name: 'Dockerfile',
          content:
            'FROM small:1\nRUN busybox ln -s /usr/lib /lib64 && mkdir /usr/lib\nCOPY lib /lib64/\nCOPY *.txt sub/[x-z]? /out/\nCOPY dir /out\nWORKDIR /w\nCOPY to-a .\nCOPY . all\n',
        },
        { name: 'lib/deep/l', content: 'lib' },
        { name: 'a.txt', content: 'a' },
        { name: 'b.txt', content: 'b' },
        { name: 'sub/y1', content: 'y' },
        { name: 'sub/a1', content: 'no' },
        { name: 'dir/run.sh', content: '#!/bin/sh', mode: 0o755 },
        { name: 'dir/inside', type: 'symlink', linkname: 'run.sh' },
        { name: 'to-a', type: 'symlink', linkname: 'a.txt' },
        { name: 'twin', type: 'link', linkname: 'a.txt' },
      ],
      { query: { reference: 'app:1' } },
    )
    expect(built.error).toBeUndefined()
    const show =
      'busybox readlink /lib64; cat /usr/lib/deep/l; ls -1 /out; test -x /out/run.sh && busybox readlink /out/inside; cat /w/to-a /w/all/twin; ls -1 /w/all'
    expect(await daemon.run('app:1', 'oci', show)).toBe(
      '/usr/lib\nliba.txt\nb.txt\ninside\nrun.sh\ny1\nrun.sh\naaDockerfile\na.txt\nb.txt\ndir\nlib\nsub\nto-a\ntwin',
    )
  })

  it('copies from stages and images with their owners, modes and links', async () => {
    const daemon = await daemonWithBase()
    const built = await daemon.build(
      {
        Dockerfile: [
          'FROM small:1 AS maker',
          'RUN mkdir -p /made/deep && echo x > /made/deep/x && busybox chown -R 5:6 /made && chmod 4711 /made/deep/x && busybox ln -s deep/x /made/link',
          'RUN busybox ln -s /made /alias && echo secret > /made/closed && chmod 600 /made/closed',
          'FROM scratch AS empty',
          'COPY --from=maker /made/deep /only/',
          'FROM small:1',
          'COPY --from=maker /alias /copied',
          'COPY --from=0 /made/l* /made/deep/x /files/',
          'COPY --from=empty / /all/',
          'COPY --from=small:1 --chown=7:8 --chmod=600 /etc/passwd /etc/copy',
        ].join('\n'),
      },
      { query: { reference: 'app:1' } },
    )
    expect(built.error).toBeUndefined()
    const show =
      'cd /; stat -c "%u:%g %a %F" copied copied/deep/x copied/link copied/closed files/link files/x all/only/x etc/copy'
    expect(await daemon.run('app:1', 'oci', show)).toBe(
      [
        '5:6 755 directory',
        '5:6 4711 regular file',
        '0:0 777 symbolic link',
        '0:0 600 regular file',
        '5:6 4711 regular file',
        '5:6 4711 regular file',
        '5:6 4711 regular file',
        '7:8 600 regular file',
      ].join('\n'),
    )
  })

  it('starts after the unchanged steps, and runs all steps with no_cache', async () => {
    const daemon = await daemonWithBase()
    const files = { Dockerfile: `FROM small:1\nRUN cat ${RANDOM} > /id\nCOPY f /f\n`, f: 'one' }
    const first = await daemon.build(files)
    expect((await daemon.build(files)).done).toMatchObject({ cached: true, image: { id: first.done?.image.id } })
    const changed = await daemon.build({ ...files, f: 'two' })
    const idIn = (built: typeof first) => daemon.run(built.done?.image.id ?? '', 'oci', 'cat /id')
    expect(changed.steps.filter(({ cached }) => cached).map(({ step }) => step)).toEqual([2])
    expect(await idIn(changed)).toBe(await idIn(first))
    const anew = await daemon.build(files, { query: { no_cache: true } })
    expect(await idIn(anew)).not.toBe(await idIn(first))
    expect((await daemon.call('GET', '/v1/images')).body).toMatchObject({ total: 4 })
    for (const { done } of [first, changed, anew]) await daemon.call('DELETE', `/v1/images/${done?.image.id}`)
    expect(await daemon.context.store.selectFrom('images').select('source').execute()).toEqual([{ source: 'archive' }])
  })

  it('hides arguments that look like secrets, and keeps no step that had one', async () => {
    const daemon = await daemonWithBase()
    const files = { Dockerfile: 'FROM small:1\nARG NPM_TOKEN\nRUN echo "with $NPM_TOKEN"; exit 1\n' }
    const built = await daemon.build(files, { args: { NPM_TOKEN: 'hunter2-hunter2' } })
    expect(built.output).toContain('with ***\n')
    const rows = await daemon.context.store.selectFrom('images').selectAll().execute()
    expect(JSON.stringify([built, rows, daemon.logged])).not.toContain('hunter2')
  })
})

describe('a step that goes wrong', () => {
  const failing = async (daemon: BuildDaemon, run: string) =>
    (await daemon.build({ Dockerfile: `FROM small:1\nRUN ${run}\n` })).error
  const isClean = async (daemon: BuildDaemon) => {
    await until(async () => (await daemon.context.backends.get('oci')?.sessionIds())?.length === 0)
    await until(async () => (await readdir(join(daemon.dataDir, 'images', 'import'))).length === 0)
    expect(daemon.context.images.building.size).toBe(0)
  }

  it('fails the build with its line and what it printed, and leaves nothing', async () => {
    const daemon = await daemonWithBase()
    expect(await failing(daemon, 'echo one; echo two >&2; exit 7')).toMatchObject({
      code: 'IMAGE_BUILD_FAILED',
      detail: { step: 2, line: 2, exit_code: 7, output: ['one', 'two'] },
    })
    expect(await failing(daemon, '["/no/such", "program"]')).toMatchObject({
      detail: { exit_code: 127, output: ['runner: /no/such: no such file or directory'] },
    })
    expect(await failing(daemon, 'echo > /.wh.hidden')).toMatchObject({
      detail: { why: expect.stringContaining('a layer cannot have a file whose name begins with .wh.') },
    })
    await isClean(daemon)
  })

  it('cannot fill the disk or take all processes', async () => {
    const daemon = await daemonWithBase({ images: { build_disk_mb: 1024, build_memory_mb: 256 } })
    expect(await failing(daemon, 'busybox dd if=/dev/zero of=/full bs=1M')).toMatchObject({
      detail: { exit_code: 1, output: [expect.stringContaining('No space left'), expect.anything(), expect.anything()] },
    })
    // Sleeping processes: those of a real fork bomb keep the whole machine busy while other tests run.
    const crowd = await failing(daemon, 'for i in $(busybox seq 100000); do busybox sleep 1000 & done; exit 3')
    // It ends by the limit of processes (2) or of memory (137), whichever is reached first.
    const exit_code = expect.toBeOneOf([2, 137])
    expect(crowd).toMatchObject({ code: 'IMAGE_BUILD_FAILED', detail: { step: 2, exit_code } })
    await isClean(daemon)
  })

  it('is ended after the longest time that a build may take', async () => {
    // Long enough for a busy machine to come to the second step.
    const daemon = await daemonWithBase({ images: { build_timeout_seconds: 15 } })
    expect(await failing(daemon, 'while true; do sleep 1; done')).toMatchObject({
      detail: { why: 'the build took longer than 15 seconds', step: 2 },
    })
    await isClean(daemon)
  })

  it('has no network, cannot make devices, and cannot replace what Sandglass mounts', async () => {
    const daemon = await daemonWithBase()
    const built = await daemon.build(
      {
        Dockerfile: [
          'FROM small:1',
          'RUN busybox mknod /disk b 8 0 || echo no device; busybox mknod /gone c 0 0 || echo no whiteout',
          'RUN busybox mv /etc /moved || echo etc stays; busybox rm -rf /etc /proc /.sandglass; ls -1 /.sandglass',
          'RUN busybox wget -q -O - http://1.1.1.1/ || echo no network',
          'RUN echo hidden > "/new\\nline" && echo x > "$(printf \'a\\nb\')"',
        ].join('\n'),
      },
      { query: { reference: 'app:1' } },
    )
    expect(built.error).toBeUndefined()
    for (const text of ['no device', 'no whiteout', 'etc stays', 'no network', 'runner']) expect(built.output).toContain(text)
    expect(
      await daemon.run('app:1', 'oci', 'ls -1 /disk /gone 2>&1; cat "/$(printf \'a\\nb\')"; cat /etc/hostname | wc -l'),
    ).toContain('x')
    await isClean(daemon)
  })

  it('is ended when its client leaves, and two clients share one build', async () => {
    const daemon = await daemonWithBase()
    const files = { Dockerfile: `FROM small:1\nRUN echo begun; sleep 1; cat ${RANDOM}\n` }
    const [one, two] = await Promise.all([daemon.build(files), daemon.build(files)])
    expect(one.done?.image.id).toBe(two.done?.image.id)
    expect(two.output).toBe(one.output)
    const leaving = new AbortController()
    const reply = await daemon.stream({ Dockerfile: 'FROM small:1\nRUN echo waiting; sleep 1000\n' }, { signal: leaving.signal })
    const reader = reply.body?.getReader()
    for (let text = ''; !text.includes('waiting\\n'); ) text += new TextDecoder().decode((await reader?.read())?.value)
    expect(await daemon.context.backends.get('oci')?.sessionIds()).toHaveLength(1)
    leaving.abort()
    await isClean(daemon)
  })

  it('with more files than an image may have is refused', async () => {
    const daemon = await daemonWithBase({ images: { max_bytes: 12 * 1024 * 1024 } })
    expect(await failing(daemon, 'busybox truncate -s 900M /sparse')).toMatchObject({ code: 'IMAGE_TOO_LARGE' })
    expect(await failing(daemon, 'busybox seq 1 25000 | busybox xargs busybox touch')).toMatchObject({ code: 'IMAGE_TOO_LARGE' })
    await isClean(daemon)
  })
})

/** Names of the entries of a stored layer. */
async function layerNames(daemon: BuildDaemon, digest: string): Promise<string[]> {
  const names: string[] = []
  const archive = extract()
  createReadStream(daemon.context.images.blobs.path(digest)).pipe(archive)
  for await (const entry of archive) {
    names.push(entry.header.name)
    entry.resume()
  }
  return names
}
