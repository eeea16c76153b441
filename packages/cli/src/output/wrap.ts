// Wraps text for people.
/** Longer lines of help are hard to read. */
const MAX_WIDTH = 100
const DEFAULT_WIDTH = 80

/** The width for text. */
export const textWidth = (stream: NodeJS.WriteStream) => Math.max(40, Math.min(stream.columns ?? DEFAULT_WIDTH, MAX_WIDTH))

/** The width for results: that of the terminal; unlimited without a terminal, for programs. */
export const resultWidth = (stream: NodeJS.WriteStream) =>
  stream.isTTY ? Math.max(40, stream.columns) : Number.POSITIVE_INFINITY

/** Splits text at spaces into lines of at most `width` characters. A longer word is not broken. */
export function wrapLine(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}

/** Text with a hanging indent: `first` before the first line, and as many spaces before the others. */
export function hanging(first: string, text: string, width: number): string {
  const lines = wrapLine(text, Math.max(20, width - first.length))
  return `${first}${lines.join(`\n${' '.repeat(first.length)}`)}\n`
}

/** Wraps paragraphs; lines that begin with a space are kept as they are. */
export function wrapText(text: string, width: number): string {
  const out: string[] = []
  let paragraph: string[] = []
  const flush = () => {
    if (paragraph.length > 0) out.push(...wrapLine(paragraph.join(' '), width))
    paragraph = []
  }
  for (const line of text.split('\n')) {
    if (line !== '' && !line.startsWith(' ')) paragraph.push(line)
    else {
      flush()
      out.push(line)
    }
  }
  flush()
  return out.join('\n')
}
