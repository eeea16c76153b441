/** A text as it stands in a generated TypeScript file. */
export const quoted = (text: string) => (text.includes("'") ? JSON.stringify(text) : `'${text}'`)
