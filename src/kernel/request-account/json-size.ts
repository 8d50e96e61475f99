/** The size of values that stand for JSON, without making it. */

/**
 * Bytes of the value as JSON, counted roughly (a character is a byte): what matters is how much a value grew by being
 * repeated. Counts no further than `most`, so that the counting itself is bounded.
 */
export function jsonSize(value: unknown, most: number): number {
  switch (typeof value) {
    case 'string':
      return value.length + 2;
    case 'object':
      return value === null ? 4 : sizeOfParts(value, most);
    case 'undefined':
      return 0;
    default:
      return 8;
  }
}

function sizeOfParts(container: object, most: number): number {
  let size = 2;
  if (Array.isArray(container)) {
    for (let i = 0; i < container.length && size <= most; i++)
      size += jsonSize(container[i], most - size) + 1;
    return size;
  }
  for (const key in container) {
    if (size > most) break;
    size += key.length + 4 + jsonSize((container as Record<string, unknown>)[key], most - size);
  }
  return size;
}
