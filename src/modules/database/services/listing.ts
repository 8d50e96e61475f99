/** Pages of lists that are in memory. */

import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';

/** Query of a list. */
export const listRange = {
  skip: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000, default: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: 25 })),
  sort: Type.Optional(Type.String({ maxLength: 256, description: 'Field names with spaces between them; - in front: descending' })),
};

/** In the order of `sort`, then by name. Throws 400 for what is not among `keys`. */
export function sorted<K extends string, T extends Readonly<Record<K, string>> & { readonly name: string }>(
  items: readonly T[],
  sort: string | undefined,
  keys: readonly K[],
): readonly T[] {
  const terms = (sort ?? '').split(' ').filter((term) => term !== '');
  const order = terms.map((term) => {
    const name = term.replace(/^-/, '');
    const key = keys.find((known) => known === name);
    if (!key) throw invalid('sort', 'field', `"${cutText(name, 64)}" is not one of ${keys.join(', ')}`);
    return { key, direction: term.startsWith('-') ? -1 : 1 };
  });
  return [...items].sort((a, b) => {
    for (const { key, direction } of order) if (a[key] !== b[key]) return a[key] < b[key] ? -direction : direction;
    return a.name < b.name ? -1 : 1;
  });
}
