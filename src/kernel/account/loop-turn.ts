/**
 * Large pieces of work on the event loop (parsing a body of megabytes, checking a thousand records) take turns: one
 * of them in each round of the loop, so that small requests pass between them however many large ones come at once.
 */
const waiting: (() => void)[] = [];

/** Resolves when it is this piece's turn: in a later round of the event loop, alone. */
export function loopTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(next);
  });
}

function next(): void {
  waiting[0]?.();
  waiting.shift();
  if (waiting.length > 0) setImmediate(next);
}

/** Bytes (or characters) of JSON from which on a piece of work is large: a few milliseconds of parsing. */
export const LARGE_BYTES = 131_072;

/** Items that are worked on in one turn. */
const PIECE = 100;

/** `items.map(work)`, a hundred at a time and other work between them. */
export async function inPieces<T, R>(items: readonly T[], work: (item: T, index: number) => R): Promise<R[]> {
  const done: R[] = [];
  for (const [index, item] of items.entries()) {
    if (index > 0 && index % PIECE === 0) await loopTurn();
    done.push(work(item, index));
  }
  return done;
}
