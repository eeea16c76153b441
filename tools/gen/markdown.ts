// The few forms of Markdown that the reference pages use.

/** A page: title, a note that it is generated, and its parts with an empty line between them. */
export function page(title: string, ...parts: string[]): string {
  return `${[`# ${title}`, '<!-- Written by tools/dev gen. Change the source, not this page. -->', ...parts].join('\n\n')}\n`
}

export function table(head: string[], rows: (string | number)[][]): string {
  const line = (cells: (string | number)[]) =>
    `| ${cells.map(c => String(c).replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

export const quote = (text: string) => `\`${text}\``
export const list = (names: readonly string[]) => names.map(quote).join(', ')
