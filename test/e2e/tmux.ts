// A real terminal: a tmux server of its own, keys in, screen out.
import { execFileSync } from 'node:child_process'
import { deadline } from './deadline.ts'

export class Tmux implements Disposable {
  readonly #server = `sandglass-test-${process.pid}-${Math.random().toString(36).slice(2)}`

  constructor(env: Record<string, string>, size: { cols: number; rows: number }) {
    const shell = `exec env PS1='host$ ' bash --norc --noprofile`
    execFileSync(
      'tmux',
      ['-L', this.#server, '-f', '/dev/null', 'new-session', '-d', '-x', String(size.cols), '-y', String(size.rows), shell],
      {
        env,
      },
    )
  }

  #tmux(...args: string[]): string {
    return execFileSync('tmux', ['-L', this.#server, ...args]).toString()
  }

  /** Text as typed, and Enter. */
  line(text: string): void {
    this.#tmux('send-keys', '-l', text)
    this.key('Enter')
  }

  /** Keys by tmux's names, like C-c. */
  key(...names: string[]): void {
    this.#tmux('send-keys', ...names)
  }

  text(text: string): void {
    this.#tmux('send-keys', '-l', text)
  }

  resize(cols: number, rows: number): void {
    this.#tmux('resize-window', '-x', String(cols), '-y', String(rows))
  }

  /** What was printed, without the spaces at the ends of lines. */
  screen(): string {
    return this.#tmux('capture-pane', '-p', '-S', '-200')
  }

  /** What was printed in the lines it was printed in, however long. */
  printedLines(): string[] {
    return this.#tmux('capture-pane', '-p', '-J', '-S', '-')
      .split('\n')
      .map(line => line.trimEnd())
  }

  /** A value of tmux's own, like alternate_on. */
  value(name: string): string {
    return this.#tmux('display-message', '-p', `#{${name}}`).trim()
  }

  /** Waits until the screen shows it. */
  async shows(pattern: RegExp, ms?: number): Promise<void> {
    try {
      await deadline(`the screen shows ${pattern}`, () => pattern.test(this.screen()), ms)
    } catch (error) {
      throw new Error(`the screen does not show ${pattern}:\n${this.screen()}`, { cause: error })
    }
  }

  [Symbol.dispose](): void {
    execFileSync('tmux', ['-L', this.#server, 'kill-server'])
  }
}
