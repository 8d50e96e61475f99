/** Validation files of SpiceDB as they are published: a schema, relationships, and assertions. */
import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import {
  type Outcome,
  type PublicCase,
  type PublicCheck,
  type PublicTuple,
  Unmapped,
} from './public-case.ts';
import { readSchema, type SpicedbSchema } from './spicedb-schema.ts';

export interface Validation {
  readonly schema?: string;
  readonly schemaFile?: string;
  readonly relationships?: string | null;
  readonly assertions?: Readonly<Record<string, readonly string[] | null>> | null;
  readonly validation?: unknown;
}

const outcomes: ReadonlyMap<string, Outcome> = new Map<string, Outcome>([
  ['assertTrue', true],
  ['assertFalse', false],
  ['assertCaveated', 'undecided'],
]);

/** The one case of a file. */
export async function validationCases(
  content: Validation,
  file: string,
): Promise<readonly PublicCase[]> {
  const named = content.schemaFile;
  const text =
    content.schema ??
    (named === undefined ? '' : await readFile(join(dirname(file), named), 'utf8'));
  const id = basename(file).replace(/\.ya?ml$/, '');
  const nothing = { id, resources: [], tuples: [], kept: [], checks: [], lists: [], whos: [] };
  try {
    const schema = readSchema(text);
    const unmapped =
      content.validation === undefined || content.validation === null
        ? []
        : ['`validation`: lists of relationships that lead to an answer are not asked'];
    return [
      {
        ...nothing,
        resources: schema.resources,
        tuples: linesOf(content.relationships).map((line) => tupleOf(schema, line)),
        checks: checksOf(schema, content.assertions ?? {}),
        unmapped,
      },
    ];
  } catch (error) {
    if (!(error instanceof Unmapped)) throw error;
    return [{ ...nothing, unmapped: [error.message] }];
  }
}

const linesOf = (text: string | null | undefined): readonly string[] =>
  (text ?? '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('//'));

const checksOf = (
  schema: SpicedbSchema,
  assertions: Readonly<Record<string, readonly string[] | null>>,
): readonly PublicCheck[] =>
  Object.entries(assertions).flatMap(([kind, lines]) => {
    const expected = outcomes.get(kind);
    if (expected === undefined) throw new Unmapped(`${kind} is no kind of assertion`);
    return (lines ?? []).map((line): PublicCheck => {
      const [asked = '', context] = line.split(/\s+with\s+(?=\{)/);
      const { subject, relation, resource } = relationshipOf(schema, asked);
      return {
        subject,
        permission: relation,
        resource,
        expected,
        ...(context !== undefined && { context: JSON.parse(context) as Record<string, unknown> }),
      };
    });
  });

function tupleOf(schema: SpicedbSchema, line: string): PublicTuple {
  const expiry = /\[expiration:([^\]]+)\]\s*$/.exec(line);
  const rest = expiry ? line.slice(0, expiry.index) : line;
  const caveat = /\[(\w+)(?::(.*))?\]\s*$/.exec(rest);
  const plain = caveat ? rest.slice(0, caveat.index) : rest;
  return {
    ...relationshipOf(schema, plain),
    ...(caveat?.[1] !== undefined && { condition: caveat[1] }),
    ...(caveat?.[2] !== undefined && {
      attributes: JSON.parse(caveat[2]) as Record<string, unknown>,
    }),
    ...(expiry?.[1] !== undefined && { expiresAt: expiry[1] }),
  };
}

/** `resource#relation@subject`. */
function relationshipOf({ name }: SpicedbSchema, text: string) {
  const [left = '', subject = ''] = text.trim().split('@');
  const [resource = '', relation = ''] = left.split('#');
  const [object = '', set] = subject.split('#');
  const named = (one: string): string => {
    const colon = one.indexOf(':');
    if (colon < 0) throw new Unmapped(`"${text}" is no relationship`);
    return `${name(one.slice(0, colon))}${one.slice(colon)}`;
  };
  const suffix = set === undefined || set === '...' ? '' : `#${name(set)}`;
  return {
    subject: `${named(object)}${suffix}`,
    relation: name(relation),
    resource: named(resource),
  };
}
