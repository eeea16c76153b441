// Questions on the terminal.
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

/** Asks a question on the terminal; the answer is empty for Enter and end of input. Questions go to stderr, since stdout is data. */
export async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new Promise<string>(resolve => lines.once('close', () => resolve('')))
  lines.once('SIGINT', giveUp)
  try {
    return (await Promise.race([lines.question(question), ended])).trim()
  } finally {
    lines.close()
  }
}

/** Asks a question that may lose its meaning before the answer: `over` then ends it. `ended` is the end of the input. */
export async function askUnless(question: string, over: AbortSignal): Promise<{ text: string } | 'aborted' | 'ended'> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const ended = new Promise<'ended'>(resolve => lines.once('close', () => resolve('ended')))
  lines.once('SIGINT', giveUp)
  try {
    return await Promise.race([lines.question(question, { signal: over }).then(text => ({ text: text.trim() })), ended])
  } catch (error) {
    if (over.aborted) return 'aborted'
    throw error
  } finally {
    lines.close()
  }
}

/** Asks a question without echo. */
export async function askSecret(question: string): Promise<string> {
  // SECURITY: readline in terminal mode writes its echo to its output, which is discarded here. The question is printed after the terminal's
  // own echo is off, so that no answer is shown.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true })
  process.stderr.write(question)
  const ended = new Promise<string>(resolve => lines.once('close', () => resolve('')))
  lines.once('SIGINT', giveUp)
  try {
    return (await Promise.race([lines.question(''), ended])).trim()
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}

/** Ends this process at Ctrl-C. readline in terminal mode reads the key, so no signal is sent. */
function giveUp(): void {
  process.stderr.write('\n')
  process.kill(process.pid, 'SIGINT')
}

/** True if the answer is y or yes. */
export async function confirm(question: string): Promise<boolean> {
  return /^y(es)?$/i.test(await ask(`${question} [y/N] `))
}
