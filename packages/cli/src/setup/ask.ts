import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

/** The answer to a question on the terminal; empty for Enter or end of input. Questions go to stderr: stdout is data. */
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

/** Like ask, with nothing of the answer shown. */
export async function askSecret(question: string): Promise<string> {
  // SECURITY: readline in terminal mode echoes what it reads into its output, which here goes nowhere. The question comes after the terminal
  // stopped its own echo, so that nobody answers before.
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

/** Ctrl-C is no answer. In its terminal mode readline takes the key, so no signal comes. */
function giveUp(): void {
  process.stderr.write('\n')
  process.kill(process.pid, 'SIGINT')
}

/** False unless the answer is yes. */
export async function confirm(question: string): Promise<boolean> {
  return /^y(es)?$/i.test(await ask(`${question} [y/N] `))
}
