/** `If-Match`: a change that is made only when what is stored is still what its author saw. */
import { hash } from 'node:crypto';
import Type from 'typebox';
import { invalid } from '../errors.ts';

/** Headers of operations that take it. */
export const ifMatch = Type.Object({
  'if-match': Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'The ETag that you saw; another version stored is 412',
    }),
  ),
});

/** The ETag of a version. `rendition` tells apart what the same version may look like. */
export const etagOf = (version: number, rendition?: string): string =>
  `"${version}${rendition === undefined ? '' : `-${rendition}`}"`;

/** Tells answers apart that have the same version, where something else has a part in them. */
export const renditionOf = (text: string): string => hash('sha256', text, 'base64url').slice(0, 16);

/**
 * The version in such a header: `"3"`, or `3`, and what becomes of an ETag on its way: `W/"3"` behind a proxy that
 * compresses. `*` asks only that something is there, which a change asks anyway.
 */
export function expectedVersion(header: string | undefined): { readonly expectedVersion?: number } {
  const tag = header?.trim();
  if (tag === undefined || tag === '*') return {};
  const version = /^(?:(?:W\/)?"(\d{1,9})(?:-[\w-]+)?"|(\d{1,9}))$/.exec(tag);
  if (version) return { expectedVersion: Number(version[1] ?? version[2]) };
  throw invalid(
    'if-match',
    'format',
    'must be one version such as "3", as the ETag header has it, or *',
  );
}
