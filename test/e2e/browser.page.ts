// Runs in a browser: uses the SDK as a web application would, and reports what it saw.
import { SandboxClient, SandglassError, type Session } from '@sandglass/sdk'

declare const target: { baseUrl: string; apiKey: string }

const report = await look().catch(failure)
await fetch('/report', { method: 'POST', body: JSON.stringify(report) })

async function look() {
  const client = new SandboxClient(target)
  const session = await client.createSession({ name: 'in-browser', labels: { made_by: 'a page' } })
  const seen = {
    isSecure: isSecureContext,
    labels: session.info.labels,
    stream: await stream(session),
    files: await files(session),
    terminal: await terminal(session),
    aborted: await abort(session),
    wrongKey: await new SandboxClient({ ...target, apiKey: 'wrong' }).listSessions().catch(failure),
    wrongKeyOnSocket: await new SandboxClient({ ...target, apiKey: 'wrong' }).session('in-browser').attachShell().catch(failure),
    noSession: await client.getSession('nobody').catch(failure),
  }
  await session.destroy()
  return { ...seen, status: session.status }
}

/** The command goes on only once its first output has arrived here, so that it cannot have come with the last. */
async function stream(session: Session) {
  const running = session.execStream('echo one; until [ -e /workspace/go ]; do sleep 0.02; done; echo two; exit 3')
  let output = ''
  for await (const { chunk } of running) {
    if (!output.includes('one') && chunk.includes('one')) await session.write('/workspace/go', '')
    output += chunk
  }
  return { output, exitCode: (await running.result).exitCode }
}

async function files(session: Session) {
  const bytes = crypto.getRandomValues(new Uint8Array(60_000))
  await session.write('/workspace/text.txt', 'grüße\n')
  await session.files.upload('/workspace/blob.bin', new Blob([bytes, bytes, bytes, bytes, bytes]))
  const back = await session.read('/workspace/blob.bin')
  return {
    text: new TextDecoder().decode(await session.read('/workspace/text.txt')),
    size: back.length,
    isSame: back.every((byte, at) => byte === bytes[at % bytes.length]),
  }
}

async function terminal(session: Session) {
  const attached = await session.attachShell('screen', { cols: 77, rows: 20 })
  await attached.write('stty size; exit\n')
  let output = ''
  for await (const { data } of attached) output += new TextDecoder().decode(data)
  return { hasSize: output.includes('20 77'), exitCode: (await attached.exit).exitCode }
}

async function abort(session: Session) {
  const controller = new AbortController()
  const running = session.execStream('echo started; sleep 60', { shell: 'other', signal: controller.signal })
  const ended = (async () => {
    for await (const _ of running) controller.abort()
  })()
  return [await ended.catch(failure), await session.exec('true', { signal: controller.signal }).catch(failure)]
}

function failure(error: unknown) {
  if (error instanceof SandglassError) return { code: error.code, hint: error.hint }
  return error instanceof Error ? { name: error.name, message: error.message } : { thrown: String(error) }
}
