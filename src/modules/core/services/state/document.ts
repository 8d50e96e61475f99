/** A state document as it comes: whether it is one at all, and what it has. */

import { Compile, type Validator } from 'typebox/compile';
import { byText } from '../../../../kernel/canonical.ts';
import type { ConfigService } from '../../../../kernel/config/config-service.ts';
import { errors, type Problem } from '../../../../kernel/errors.ts';
import type { Health } from '../../../../kernel/health.ts';
import { unknownKeys } from '../../../../kernel/operations/declared-keys.ts';
import {
  invalidInput,
  problemsOf,
  type ValidatorError,
} from '../../../../kernel/operations/problems.ts';
import type {
  PlacedDocument,
  StateDocument,
  StateRegistry,
  StateType,
} from '../../../../kernel/state.ts';
import { createTimeSlices } from '../../../../kernel/time-slices.ts';

/** Grows when older platforms could not understand a document any more. */
export const FORMAT_VERSION = 1;

type Tree = Readonly<Record<string, unknown>>;

/** The documents of one type. */
interface TypePart {
  readonly module: string;
  readonly type: string;
  readonly documents: readonly PlacedDocument[];
}

export interface StateContent {
  /** By module, in the order of the names. */
  readonly configs: ReadonlyMap<string, Tree>;
  readonly types: readonly TypePart[];
  /** Values for the references of the document, by reference. */
  readonly secrets: ReadonlyMap<string, string>;
  /** What the document says about itself, if it does. */
  readonly checksum: string | undefined;
}

/** `secrets` stands in a request beside the document, and never in an export. */
const knownKeys: ReadonlySet<string> = new Set([
  'formatVersion',
  'platformVersion',
  'exportedAt',
  'checksum',
  'configs',
  'modules',
  'secrets',
]);

/** What the platform adds to a document, and takes no notice of in one that comes back. */
const addedKeys: ReadonlySet<string> = new Set(['_id', 'createdAt', 'updatedAt', '__v']);

const MAX_DOCUMENTS = 20_000;

/** Reads a body. Throws 400 with all places that make it no document of this platform. */
export function readState(body: Tree): StateContent {
  requireVersion(body.formatVersion);
  const problems: Problem[] = Object.keys(body)
    .filter((key) => !knownKeys.has(key))
    .map((path) => ({ path, rule: 'unknown', message: 'is no part of a state document' }));
  if (body.configs === undefined && body.modules === undefined)
    problems.push({
      path: 'modules',
      rule: 'required',
      message: 'this is no state document: it has neither configs nor modules',
    });
  const content = {
    configs: configsOf(body.configs, problems),
    types: typesOf(body.modules, problems),
    secrets: secretsOf(body.secrets, problems),
    checksum: typeof body.checksum === 'string' ? body.checksum : undefined,
  };
  if (content.types.reduce((sum, { documents }) => sum + documents.length, 0) > MAX_DOCUMENTS)
    problems.push({
      path: 'modules',
      rule: 'maxItems',
      message: `must have at most ${MAX_DOCUMENTS} documents: import it in parts`,
    });
  if (problems.length > 0) throw invalidInput(problems);
  return content;
}

function requireVersion(version: unknown): void {
  if (version === undefined || version === FORMAT_VERSION) return;
  const newer = typeof version === 'number' && version > FORMAT_VERSION;
  const message = newer
    ? `is ${version}; this platform understands ${FORMAT_VERSION}: upgrade it, or export again from an older one`
    : `must be ${FORMAT_VERSION}`;
  throw errors.INVALID_ARGUMENTS({
    message: `formatVersion: ${message}`,
    errors: [{ path: 'formatVersion', rule: 'version', message }],
  });
}

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const mustBeObject = (path: string): Problem => ({
  path,
  rule: 'type',
  message: 'must be an object',
});

/** The entries of an object, in order; nothing, and a problem, for anything else. */
function entriesOf(
  value: unknown,
  path: string,
  problems: Problem[],
): readonly (readonly [string, unknown])[] {
  if (value === undefined) return [];
  if (!isTree(value)) {
    problems.push(mustBeObject(path));
    return [];
  }
  return Object.entries(value).sort(([a], [b]) => byText(a, b));
}

function configsOf(configs: unknown, problems: Problem[]): StateContent['configs'] {
  const found = new Map<string, Tree>();
  for (const [key, modules] of entriesOf(configs, 'configs', problems)) {
    if (key !== 'modules') {
      problems.push({
        path: `configs.${key}`,
        rule: 'unknown',
        message: 'is no part of a state document',
      });
      continue;
    }
    for (const [module, config] of entriesOf(modules, 'configs.modules', problems)) {
      if (isTree(config)) found.set(module, config);
      else problems.push(mustBeObject(`configs.modules.${module}`));
    }
  }
  return found;
}

function typesOf(modules: unknown, problems: Problem[]): readonly TypePart[] {
  return entriesOf(modules, 'modules', problems).flatMap(([module, types]) =>
    entriesOf(types, `modules.${module}`, problems).flatMap(([type, documents]) => {
      const path = `modules.${module}.${type}`;
      if (!Array.isArray(documents)) {
        problems.push({ path, rule: 'type', message: 'must be a list of documents' });
        return [];
      }
      return [
        {
          module,
          type,
          documents: documents.flatMap((item: unknown, i) =>
            placedDocument(item, `${path}.${i}`, problems),
          ),
        },
      ];
    }),
  );
}

function placedDocument(
  item: unknown,
  place: string,
  problems: Problem[],
): readonly PlacedDocument[] {
  if (!isTree(item)) {
    problems.push(mustBeObject(place));
    return [];
  }
  return [
    {
      document: Object.fromEntries(Object.entries(item).filter(([key]) => !addedKeys.has(key))),
      place,
    },
  ];
}

function secretsOf(secrets: unknown, problems: Problem[]): StateContent['secrets'] {
  const found = new Map<string, string>();
  for (const [reference, value] of entriesOf(secrets, 'secrets', problems)) {
    if (typeof value === 'string') found.set(reference, value);
    else problems.push({ path: `secrets.${reference}`, rule: 'type', message: 'must be a string' });
  }
  return found;
}

/* Finds the types of a document, and looks at the shape of each of their documents. */

/** The documents of one type that somebody keeps. */
export interface KnownPart extends TypePart {
  readonly state: StateType;
}

/** The types of the document in the order in which they are written. Throws 400 for what nobody keeps, and for wrong shapes. */
export async function requireTypes(
  { state, config }: { readonly state: StateRegistry; readonly config: ConfigService },
  { types, configs }: StateContent,
): Promise<readonly KnownPart[]> {
  const all = state.all();
  const problems: Problem[] = [...configs.keys()]
    .filter((module) => !config.definition(module))
    .map((module) => ({
      path: `configs.modules.${module}`,
      rule: 'exists',
      message: 'there is no such module here',
    }));
  const known = types.flatMap((part): readonly KnownPart[] => {
    const place = `modules.${part.module}.${part.type}`;
    const found = all.find(({ module, type }) => module === part.module && type === part.type);
    if (!found) problems.push({ path: place, rule: 'exists', message: absence(part, all, config) });
    else if (configs.get(part.module)?.active === false)
      problems.push({
        path: place,
        rule: 'active',
        message: 'the same document switches this module off: leave out either',
      });
    return found ? [{ ...part, state: found }] : [];
  });
  problems.push(...(await shapeProblems(known)));
  if (problems.length > 0) throw invalidInput(problems);
  return known.toSorted((a, b) => all.indexOf(a.state) - all.indexOf(b.state));
}

function absence({ module }: TypePart, all: readonly StateType[], config: ConfigService): string {
  if (!config.definition(module)) return 'there is no such module here';
  return all.some((one) => one.module === module)
    ? 'the module keeps no such type'
    : 'the module keeps no state, or does not run: switch it on first (active: true)';
}

/** So many problems say that it is another document. */
const ENOUGH_PROBLEMS = 100;

/** One document cannot mean two things by one key, so twins are refused as well. In slices: there may be many. */
async function shapeProblems(parts: readonly KnownPart[]): Promise<readonly Problem[]> {
  const pause = createTimeSlices();
  const problems: Problem[] = [];
  for (const { state, documents } of parts) {
    const seen = new Set<string>();
    for (const one of documents) {
      problems.push(...problemsOfOne(state, one, seen));
      if (problems.length >= ENOUGH_PROBLEMS) return problems;
      await pause();
    }
  }
  return problems;
}

/** `seen`: keys of the documents before it. */
function problemsOfOne(
  state: StateType,
  { document, place }: PlacedDocument,
  seen: Set<string>,
): readonly Problem[] {
  const validator = validatorOf(state);
  if (!validator.Check(document)) {
    const found = validator.Errors(document) as readonly ValidatorError[];
    return problemsOf(state.document, found, '').map((problem) => ({
      ...problem,
      path: problem.path === '' ? place : `${place}.${problem.path}`,
    }));
  }
  const key = state.keyOf(document);
  const twin = seen.has(key)
    ? [{ path: place, rule: 'unique', message: `${key} is there twice` }]
    : [];
  seen.add(key);
  return [...unknownKeys(state.document, document, place), ...twin];
}

/** Compiled once for each type. */
const validators = new WeakMap<StateType['document'], Validator>();

function validatorOf({ document }: StateType): Validator {
  const validator = validators.get(document) ?? Compile(document);
  validators.set(document, validator);
  return validator;
}

/** What there is of a type. What is damaged is no document, so an import puts a whole one in its place. */
export async function storedDocuments(state: StateType): Promise<readonly StateDocument[]> {
  const validator = validatorOf(state);
  const pause = createTimeSlices();
  const whole: StateDocument[] = [];
  for (const document of await state.export()) {
    if (validator.Check(document)) whole.push(document);
    await pause();
  }
  return whole;
}

/** Looks for damaged documents of the types whose modules do not tell of them, and has `/ready` tell of what is found. */
export async function reportDamaged(
  types: readonly StateType[],
  health: Pick<Health, 'leaveOut'>,
): Promise<void> {
  for (const state of types) {
    if (state.reportDamaged !== true) continue;
    const validator = validatorOf(state);
    const damaged = (await state.export()).filter((document) => !validator.Check(document));
    health.leaveOut(
      `${state.module}.${state.type}`,
      damaged.map((document) => {
        const [error] = validator.Errors(document);
        return { name: nameOf(document), reason: error?.message ?? 'it has another shape' };
      }),
    );
  }
}

/** As far as it has one: a damaged document may have no key. */
const nameOf = ({ name, title, id }: StateDocument): string =>
  [name, title, id].find((one) => typeof one === 'string') ?? 'one without a name';
