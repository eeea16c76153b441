// Lists that the daemon answers one page at a time.

type Page<Item> = { items: readonly Item[]; nextCursor: string | null }

/** The number of items that are asked for at once: the most that the daemon gives. */
export const PAGE_SIZE = 200

/** All items, fetched one page at a time. `fetchPage` gets the cursor of the page, which is undefined for the first one. */
export async function* paged<Item>(
  fetchPage: (cursor: string | undefined) => Promise<Page<Item>>,
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | undefined
  do {
    const page = await fetchPage(cursor)
    yield* page.items
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined)
}

/** All items of all pages. */
export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = []
  for await (const item of items) found.push(item)
  return found
}
