/**
 * What makes two requests the same request. Hashes are compared only when they were made in the same
 * form: another version of the platform may hash otherwise, or decode the same bytes to another input
 * (a new default). A retry over a deployment must get the stored answer, so hashes of different forms
 * count as equal.
 */
import { createHash } from 'node:crypto';
import type { DecodedInput, Operation } from '../operation.ts';
import type { SecretBox } from '../security/secret-box.ts';

export interface RequestHash {
  readonly hash: string;
  /** How the hash came about: its method, and the declaration by which the input was decoded. */
  readonly form: string;
}

/** Count up when `textOf` or the digest changes. */
const METHOD = 2;

const forms = new WeakMap<object, string>();

/** It may hold a password, so a plain hash of it would let a stolen table be searched for that. */
export const hashOf = (secrets: Pick<SecretBox, 'digest'>, operation: Operation, input: DecodedInput): RequestHash => ({
  hash: secrets.digest(textOf(input), 'idempotency:request'),
  form: formOf(operation),
});

const textOf = ({ params, query, headers, body }: DecodedInput): string => JSON.stringify([params, query, headers, body ?? null]);

function formOf({ input }: Operation): string {
  const known = forms.get(input);
  if (known !== undefined) return known;
  const declared = createHash('sha256').update(JSON.stringify([input.params, input.query, input.headers, input.body]) ?? '');
  const form = `${METHOD}:${declared.digest('base64url').slice(0, 16)}`;
  forms.set(input, form);
  return form;
}
