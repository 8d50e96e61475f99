/** Secrets of configurations in state documents: they leave as references, and references find their values. */

import { secretMask } from '../../../../kernel/config/config-definition.ts';
import {
  isTree,
  mapSecrets,
  type Path,
  type SchemaNode,
  type Tree,
  valueAt,
} from '../../../../kernel/config/tree.ts';
import type { Problem } from '../../../../kernel/errors.ts';

/** The only key of a reference. */
const SECRET = '$secret';

const referenceOf = (value: unknown): string | undefined => {
  const reference = valueAt(value, [SECRET]);
  return typeof reference === 'string' && isTree(value) && Object.keys(value).length === 1
    ? reference
    : undefined;
};

/** A whole configuration with a reference for each secret that is set: `{"$secret": "<module>.<path>"}`. */
export const withReferences = (module: string, node: SchemaNode, config: Tree): Tree =>
  mapSecrets(node, config, (value, path) =>
    value === '' ? value : { [SECRET]: [module, ...path].join('.') },
  ) as Tree;

/** `communications.email.smtp.password` is `SECRET_COMMUNICATIONS_EMAIL_SMTP_PASSWORD`; `clientSecret` becomes `CLIENT_SECRET`. */
export const secretVariable = (reference: string): string =>
  `SECRET_${reference
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .toUpperCase()}`;

export interface SecretSources {
  /** By reference. */
  readonly given: ReadonlyMap<string, string>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Whether this variable of the environment may be named where it is not that of the key itself: no secret ends where it was not meant to. */
  readonly mayName: (reference: string) => boolean;
}

interface Referring {
  readonly module: string;
  readonly node: SchemaNode;
  /** Whole, secrets masked. */
  readonly current: Tree;
  /** Where the configuration stands in the document. */
  readonly place: string;
}

/**
 * A configuration of a document as a patch: each reference replaced by its value; by the mask, which means
 * "as it is", where nobody knows the value and one is stored. Problems for the others.
 */
export function resolveSecrets(
  config: Tree,
  { module, node, current, place }: Referring,
  { given, environment, mayName }: SecretSources,
): { readonly patch: Tree; readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const at = (path: Path): string => [place, ...path].join('.');
  const patch = mapSecrets(node, config, (value, path) => {
    const reference = referenceOf(value);
    if (reference === undefined) return value;
    const isOwn = reference === [module, ...path].join('.');
    const found =
      given.get(reference) ??
      (isOwn || mayName(reference) ? environment[secretVariable(reference)] : undefined);
    if (found !== undefined) return found;
    if (valueAt(current, path)) return secretMask;
    const message = `no value is known: send it as secrets["${reference}"], or set ${secretVariable(reference)} where the platform runs`;
    problems.push({ path: at(path), rule: 'secret', message });
    return '';
  }) as Tree;
  problems.push(...strayReferences(patch, place));
  return { patch, problems };
}

/** Every name that a value refers to, at any depth. */
export function referencesIn(value: unknown): ReadonlySet<string> {
  const reference = referenceOf(value);
  if (reference !== undefined) return new Set([reference]);
  if (typeof value !== 'object' || value === null) return new Set();
  return new Set(Object.values(value).flatMap((item) => [...referencesIn(item)]));
}

/** References where no secret is kept: their values would be shown to everybody. */
function strayReferences(value: unknown, place: string): readonly Problem[] {
  if (referenceOf(value) !== undefined)
    return [{ path: place, rule: 'secret', message: 'is no secret: write the value itself' }];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => strayReferences(item, `${place}.${key}`));
}
