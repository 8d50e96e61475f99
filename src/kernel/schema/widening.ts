/** Which changes of a type keep every stored value as it is. */

/** Type signatures (field.ts), from and to. */
const widenings: ReadonlySet<string> = new Set([
  'number:integer>number:bigint',
  'number:integer>number:numeric',
  'number:integer>number:double precision',
  'number:bigint>number:numeric',
  'objectId>string',
]);

const isLink = (signature: string): boolean => signature === 'objectId' || signature.startsWith('relation:');

/**
 * True when stored values fit the other type. An id may become a link and a link a plain id: what links
 * to nothing is found when the key is made. Only columns can be widened: inside of JSON nothing is rewritten.
 */
export function isWidening(path: string, from: string, to: string): boolean {
  if (path.includes('.')) return false;
  return widenings.has(`${from}>${to}`) || (isLink(from) && isLink(to) && (from === 'objectId' || to === 'objectId'));
}

/** What an admin can do about a change of type that is refused. */
export const refusedChange = (from: string, to: string): string =>
  `was ${from} and cannot become ${to}. Add a field of the new type, copy the values, then take this one out and rename the new one`;
