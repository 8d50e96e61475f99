/**
 * One search through everything that an operator may see, for the search box of a panel: records of searched schemas,
 * users, files, schemas, settings and operations. Each kind is asked for by itself, with the authority of the operator; one
 * that cannot be searched now takes nothing from the others.
 */
import { all, any, type Condition, contains, equals } from '../../../data/conditions/condition.ts';
import type { Kernel } from '../../../host/kernel.ts';
import { hasAuthority, schemaObject, withinScopes } from '../../../kernel/authority.ts';
import type { AdminCaller, Caller } from '../../../kernel/caller.ts';
import { configKeys } from '../../../kernel/config/keys.ts';
import { invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { ofModulesOf } from '../../storage/index.ts';
import { allConfigs, type ConfigRow } from '../queries/configs.ts';
import type { Hit } from './hits.ts';
import type { Search } from './search.ts';
import { fileSchemaName, filesSearched, plainFieldsOf, textOf } from './texts.ts';

export const kindsOfThings = ['record', 'user', 'file', 'schema', 'setting', 'operation'] as const;
export type ThingKind = (typeof kindsOfThings)[number];

/** Something that was found. */
export interface Thing {
  readonly kind: ThingKind;
  readonly id: string;
  readonly title: string;
  readonly description?: string;
  /** Path of the admin surface that answers it. */
  readonly path: string;
  /** 0 to 1; to be compared within a kind. */
  readonly score: number;
}

export interface EverythingInput {
  readonly text: string;
  readonly kinds?: readonly ThingKind[] | undefined;
  /** Of each kind. */
  readonly limit: number;
  readonly mode: 'keyword' | 'hybrid';
}

export interface Everything {
  /** By kind, the best of each first. */
  readonly results: readonly Thing[];
  /** Kinds that could not be searched, or not all of them. */
  readonly incomplete: readonly ThingKind[];
}

export type SearchEverything = (caller: Caller, input: EverythingInput) => Promise<Everything>;

interface EverythingParts extends Pick<Kernel, 'database' | 'operations' | 'records' | 'schemas'> {
  readonly search: Search;
  readonly configuration: Kernel['config'];
}

interface Question extends EverythingInput {
  readonly caller: Caller;
  /** In small letters. */
  readonly words: readonly string[];
}

const MAX_TITLE = 120;
/** Searched schemas that are asked at the same time. */
const AT_ONCE = 4;

const finders: Readonly<
  Record<ThingKind, (parts: EverythingParts, asked: Question) => Promise<readonly Thing[]>>
> = {
  record: records,
  user: users,
  file: files,
  schema: async (parts, asked) => schemas(parts, asked),
  setting: async (parts, asked) => settings(parts, asked),
  operation: async (parts, asked) => operations(parts, asked),
};

export function createSearchEverything(parts: EverythingParts): SearchEverything {
  return async (caller, input) => {
    const text = input.text.normalize('NFC').trim();
    if (text === '') throw invalid('text', 'required', 'must say what to search for');
    const words = wordsIn(text).filter((word) => word !== '');
    const asked = { ...input, text, caller, words };
    const kinds = kindsOfThings.filter((kind) => !input.kinds || input.kinds.includes(kind));
    const found = await Promise.allSettled(kinds.map((kind) => finders[kind](parts, asked)));
    return {
      results: found.flatMap((one) =>
        one.status === 'fulfilled' ? best(one.value, input.limit) : [],
      ),
      incomplete: kinds.filter((_, at) => found[at]?.status === 'rejected'),
    };
  };
}

const best = (things: readonly Thing[], limit: number): readonly Thing[] =>
  things.toSorted((a, b) => b.score - a.score || (a.title < b.title ? -1 : 1)).slice(0, limit);

/** Somebody who types is not done with the last word. */
const asTyped = (text: string): string => (/[\p{L}\p{N}]$/u.test(text) ? `${text}*` : text);

/** Those that the searches of schemas find. Fails when none of them could be asked. */
async function records(parts: EverythingParts, asked: Question): Promise<readonly Thing[]> {
  const { caller } = asked;
  const configs = (await allConfigs(parts.database)).filter(({ enabled, schemaName, current }) => {
    const schema = parts.schemas.get(schemaName);
    const isRecord = schemaName !== fileSchemaName;
    const objects = [...schemaObject(schema), ...filesSearched(schema, current.sourceFields)];
    return enabled && schema && isRecord && objects.every((one) => hasAuthority(caller, one));
  });
  const found: Thing[] = [];
  for (let at = 0; at < configs.length; at += AT_ONCE) {
    const some = configs.slice(at, at + AT_ONCE);
    const lists = await Promise.all(some.map((config) => recordsOf(parts, asked, config)));
    found.push(...lists.flat());
  }
  // Of a schema with several configurations a record is found once, where it fits best.
  const byPath = new Map<string, Thing>();
  for (const one of found)
    if ((byPath.get(one.path)?.score ?? -1) < one.score) byPath.set(one.path, one);
  return [...byPath.values()];
}

async function hitsOf(
  { search }: EverythingParts,
  { caller, text, limit, mode }: Question,
  { schemaName, targetField }: ConfigRow,
): Promise<readonly Hit[]> {
  const { hits } = await search(caller, {
    ...{ schemaName, targetField, limit, mode },
    text: mode === 'keyword' ? asTyped(text) : text,
    fallback: 'keyword',
  });
  return hits;
}

async function recordsOf(
  parts: EverythingParts,
  asked: Question,
  config: ConfigRow,
): Promise<readonly Thing[]> {
  const { schemaName, current } = config;
  const fields = plainFieldsOf(parts.schemas.get(schemaName), current.sourceFields);
  const hits = await hitsOf(parts, asked, config);
  return hits.map(({ id, document, score }) => {
    const lines = textOf(document, fields).split('\n');
    return {
      kind: 'record',
      id,
      title: cutText(lines[0] || id, MAX_TITLE),
      description: cutText([schemaName, ...lines.slice(1)].join(' · '), MAX_TITLE),
      path: `/database/schemas/${schemaName}/docs/${id}`,
      score,
    };
  });
}

const idPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface Listed {
  readonly schema: string;
  readonly module: string;
  readonly fields: readonly string[];
  readonly among?: readonly Condition[];
}

/** Documents of a schema of the platform that have the text in one of the fields, or as their id. */
async function listed(
  { records: store, schemas: registry }: EverythingParts,
  { caller, text, limit }: Question,
  { schema, module, fields, among = [] }: Listed,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  if (!registry.get(schema) || !hasAuthority(caller, { kind: 'module', module })) return [];
  const filter = all(
    any(
      ...fields.map((name) => contains(name, text, 'text')),
      ...(idPattern.test(text) ? [equals('_id', text.toLowerCase(), 'text')] : []),
    ),
    ...among,
  );
  const options = { filter, limit, count: 'none' } as const;
  const { documents } = JSON.parse(await store.select(caller, schema, options));
  return documents;
}

/** A title that begins with the text fits better than one that has it somewhere. */
const scoreOf = (title: string, text: string): number =>
  title.toLowerCase().startsWith(text.toLowerCase()) ? 1 : 0.5;

async function users(parts: EverythingParts, asked: Question): Promise<readonly Thing[]> {
  const fields = ['email', 'username', 'phoneNumber'];
  const found = await listed(parts, asked, { schema: 'User', module: 'authentication', fields });
  return found.map((user) => {
    const id = String(user._id);
    const names = fields.flatMap((name) => (typeof user[name] === 'string' ? [user[name]] : []));
    const title = names.find((name) => name.includes(asked.text.toLowerCase())) ?? names[0] ?? id;
    const description = names.filter((name) => name !== title).join(' · ');
    const path = `/authentication/users?search=${id}`;
    return { kind: 'user', id, title, description, path, score: scoreOf(title, asked.text) };
  });
}

/** By a part of their names, and by what stands in them where that is searched. */
async function files(parts: EverythingParts, asked: Question): Promise<readonly Thing[]> {
  const { caller } = asked;
  const fields = ['name', 'alias'];
  const among = ofModulesOf(caller);
  const source = { schema: fileSchemaName, module: 'storage', fields, among };
  const named = await listed(parts, asked, source);
  const things = named.map((file) => fileThing(file, scoreOf(String(file.name), asked.text)));
  const schema = parts.schemas.get(fileSchemaName);
  if (!schema || !schemaObject(schema).every((one) => hasAuthority(caller, one))) return things;
  const configs = (await allConfigs(parts.database)).filter(
    ({ enabled, schemaName }) => enabled && schemaName === fileSchemaName,
  );
  for (const config of configs)
    for (const { id, document, score } of await hitsOf(parts, asked, config))
      if (!things.some((one) => one.id === id))
        // Behind those whose names say it.
        things.push(fileThing(document, score / 2));
  return things;
}

const fileThing = (
  { _id, name, container, folder }: Readonly<Record<string, unknown>>,
  score: number,
): Thing => ({
  kind: 'file',
  id: String(_id),
  title: String(name),
  description: `${container}${folder === '/' ? '' : `/${folder}`}`,
  path: `/storage/files/${_id}`,
  score,
});

const wordsIn = (text: string): readonly string[] =>
  text
    .replaceAll(/[a-z](?=[A-Z])/g, '$& ')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);

/** 1 when words of the name begin with all of these, less when some do in the description alone; 0 when one does nowhere. */
function fitOf(words: readonly string[], name: string, description = ''): number {
  const [inName, inDescription] = [wordsIn(name), wordsIn(description)];
  const begins = (all: readonly string[], word: string) => all.some((one) => one.startsWith(word));
  const named = words.filter((word) => begins(inName, word));
  const isWhole = words.every((word) => named.includes(word) || begins(inDescription, word));
  return isWhole && words.length > 0 ? (1 + named.length) / (1 + words.length) : 0;
}

const fitting = (things: readonly Thing[]): readonly Thing[] =>
  things.filter(({ score }) => score > 0);

const schemas = (
  { schemas: registry }: EverythingParts,
  { caller, words }: Question,
): readonly Thing[] =>
  fitting(
    registry
      .all()
      .filter((schema) => schemaObject(schema).every((one) => hasAuthority(caller, one)))
      .map(({ name, ownerModule, tree }) => ({
        kind: 'schema',
        id: name,
        title: name,
        description: ownerModule,
        path: `/database/schemas?search=${encodeURIComponent(name)}`,
        score: fitOf(words, name, [...tree.fields.keys()].join(' ')),
      })),
  );

const settings = (
  { configuration }: EverythingParts,
  { caller, words }: Question,
): readonly Thing[] =>
  fitting(
    configuration.modulesFor(caller).flatMap((module) => {
      const definition = configuration.definition(module);
      return (definition ? configKeys(definition) : []).map(({ key, description }) => ({
        kind: 'setting' as const,
        id: `${module}.${key}`,
        title: `${module}.${key}`,
        description,
        path: `/config/${module}`,
        score: fitOf(words, `${module}.${key}`, description),
      }));
    }),
  );

const operations = (
  { operations: registry }: EverythingParts,
  { caller, words }: Question,
): readonly Thing[] =>
  fitting(
    registry
      .all()
      .filter(({ operation }) => operation.surface === 'admin' && isTheirs(caller, operation))
      .map(({ operation: { id, method, path, summary } }) => ({
        kind: 'operation',
        id,
        title: `${method} ${path}`,
        description: summary,
        path,
        score: fitOf(words, `${method} ${path} ${id}`, summary),
      })),
  );

const isTheirs = (caller: Caller, operation: Parameters<typeof withinScopes>[1]): boolean =>
  caller.kind === 'admin' && withinScopes(caller satisfies AdminCaller, operation);
