/** Lines of help are easier to read when they are not too long. */
const MAX_WIDTH = 100
const DEFAULT_WIDTH = 80

/** How wide text for people may be on this output. */
export const textWidth = (stream: NodeJS.WriteStream) => Math.max(40, Math.min(stream.columns ?? DEFAULT_WIDTH, MAX_WIDTH))

/** How wide lines with results may be: as wide as the terminal, and without one whatever they are, for the program that reads them. */
export const resultWidth = (stream: NodeJS.WriteStream) =>
  stream.isTTY ? Math.max(40, stream.columns) : Number.POSITIVE_INFINITY

/** Lines of at most `width` characters, broken at spaces. A word that is longer stays whole. */
export function wrapLine(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}

/** Text with a hanging indent: `first` in front of it, and as many spaces in front of the lines that follow. */
export function hanging(first: string, text: string, width: number): string {
  const lines = wrapLine(text, Math.max(20, width - first.length))
  return `${first}${lines.join(`\n${' '.repeat(first.length)}`)}\n`
}

/** Paragraphs, each wrapped anew; lines that begin with a space stay as they are. */
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
