/**
 * What an operation needs at run time, derived from its declaration once and
 * only when it is first called: with hundreds of operations, start-up does not
 * wait for validators that nobody uses.
 */
import type { TObject, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Problem } from '../errors.ts';
import {
  compileKeyCheck,
  compileProjector,
  type KeyCheck,
  type Projector,
} from './declared-keys.ts';
import { decodeQuery, decodeTexts, type TextFields, textFields } from './decode.ts';
import { invalidValueProblem } from './invalid-value.ts';
import { alternatives, type JsonSchema, jsonSchema, ownDefault } from './json-schema.ts';
import type { Operation } from './operation.ts';
import type { BodyStream, DecodedInput } from './operation-input.ts';
import { invalidInput, problemsOf, type ValidatorError } from './problems.ts';
import { createRefusable, mergeUnknown, type Refusal, unknownInput } from './unknown-input.ts';
import { uuidSpelling } from './uuid-spelling.ts';

/** Input as it stands in a request: texts everywhere but in the body, which is parsed JSON. */
export interface RawInput {
  readonly params: Readonly<Record<string, string | undefined>>;
  /** The part after `?`, without it. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** `undefined` when there is none. */
  readonly body: unknown;
  /** A body that was sent as a form, as it came. Then `body` is `undefined`. */
  readonly form?: string | undefined;
  readonly stream?: BodyStream | undefined;
}

export interface CompiledOperation {
  readonly operation: Operation;
  /**
   * Decodes and validates; throws one 400 with everything that is wrong. That includes what the operation does not know,
   * as far as `refusal` says; the rest of it is left out, and told in `notes`.
   */
  decode(raw: RawInput, refusal?: Refusal): DecodedInput;
  /** The same for transports whose values are typed already (GraphQL, MCP, gRPC). */
  accept(input: DecodedInput): DecodedInput;
  /** Drops from an answer what the output does not declare. */
  project(result: unknown): unknown;
}

const compiled = new WeakMap<Operation, CompiledOperation>();

/** The run-time form of an operation; the same one for every surface. */
export function compileOperation(operation: Operation): CompiledOperation {
  const known = compiled.get(operation);
  if (known) return known;
  const made = new LazyOperation(operation);
  compiled.set(operation, made);
  return made;
}

const nothing: Readonly<Record<string, never>> = Object.freeze(
  Object.create(null) as Record<string, never>,
);

const noFields: TextFields = new Map();
const none: readonly Problem[] = [];

const decodedTexts = (
  place: Place | undefined,
  texts: RawInput['headers'],
  problems: Problem[],
): Record<string, unknown> => (place ? decodeTexts(place.fields, texts, problems) : nothing);

class LazyOperation implements CompiledOperation {
  readonly operation: Operation;
  #input: CompiledInput | undefined;
  #output: { readonly project: Projector | undefined } | undefined;

  constructor(operation: Operation) {
    this.operation = operation;
  }

  decode(raw: RawInput, refusal: Refusal = 'none'): DecodedInput {
    this.#input ??= new CompiledInput(this.operation);
    return this.#input.decode(raw, refusal);
  }

  accept(input: DecodedInput): DecodedInput {
    this.#input ??= new CompiledInput(this.operation);
    return this.#input.accept(input);
  }

  project(result: unknown): unknown {
    this.#output ??= {
      project: compileProjector(jsonSchema(this.operation.output), { dropNulls: false }),
    };
    return this.#output.project ? this.#output.project(result) : result;
  }
}

class CompiledInput {
  readonly #params: Place | undefined;
  readonly #query: Place | undefined;
  /** Further parameters are no mistake. */
  readonly #openQuery: boolean;
  readonly #headers: Place | undefined;
  readonly #body: BodyPlace | undefined;
  readonly #strict: boolean;
  readonly #largestPage: number | undefined;
  readonly #operation: Operation;
  #refusable: ReturnType<typeof createRefusable> | undefined;

  constructor(operation: Operation) {
    this.#operation = operation;
    const { params, query, headers, body } = operation.input;
    this.#largestPage = largestPage(operation);
    this.#params = params && new Place(params, 'path');
    this.#query = query && new Place(query, 'query');
    this.#openQuery = query !== undefined && jsonSchema(query).additionalProperties === true;
    this.#headers = headers && new Place(headers, 'headers');
    this.#body = body && new BodyPlace(body, operation.strict ?? false);
    this.#strict = operation.strict ?? false;
  }

  decode(raw: RawInput, refusal: Refusal): DecodedInput {
    const problems: Problem[] = [];
    const unknown: string[] = [];
    const isForm = raw.form !== undefined;
    const given: DecodedInput = {
      params: decodedTexts(this.#params, raw.params, problems),
      query: this.#decodeQuery(raw.query, problems, unknown),
      headers: decodedTexts(this.#headers, raw.headers, problems),
      body: isForm ? this.#body?.decodeForm(raw.form, problems) : raw.body,
      stream: raw.stream,
    };
    const cut = cutPage(given.query, this.#largestPage);
    const left = unknown.length === 0 ? none : unknownInput(unknown, this.#queryNames());
    if (left.length > 0) problems.push(...(this.#strict ? left : this.#refused(left, refusal)));
    const input = this.#validate(given, problems, isForm ? 'none' : refusal);
    const dropped = isForm ? none : (this.#body?.unknownKeys(given.body, input.body) ?? none);
    if (left.length + dropped.length + cut.length === 0) return input;
    return { ...input, notes: [...left, ...dropped, ...cut] };
  }

  /** Where nothing is declared, nothing can be wrong. */
  #decodeQuery(text: string, problems: Problem[], unknown: string[]): Record<string, unknown> {
    const fields = this.#query?.fields;
    return decodeQuery(fields ?? noFields, text, fields ? problems : [], (key) => {
      if (!this.#openQuery) unknown.push(key);
    });
  }

  #queryNames(): readonly string[] {
    return [...(this.#query?.fields.keys() ?? [])];
  }

  accept(given: DecodedInput): DecodedInput {
    const problems: Problem[] = [];
    const input = this.#query ? { ...given, query: this.#query.filled(given.query) } : given;
    const places = [
      [this.#params, input.params],
      [this.#query, input.query],
      [this.#headers, input.headers],
    ] as const;
    for (const [place, values] of places) {
      const problem = place && invalidValueProblem(values, '');
      if (problem) problems.push(problem);
    }
    return this.#validate(input, problems);
  }

  #refused(unknown: readonly Problem[], refusal: Refusal): readonly Problem[] {
    if (unknown.length === 0 || refusal === 'none') return none;
    this.#refusable ??= createRefusable(this.#operation);
    return this.#refusable(unknown, refusal);
  }

  #validate(input: DecodedInput, problems: Problem[], refusal: Refusal = 'none'): DecodedInput {
    this.#params?.check(input.params, problems);
    this.#query?.check(input.query, problems);
    this.#headers?.check(input.headers, problems);
    const parsed = input.stream ? undefined : this.#body;
    const body = parsed ? parsed.accept(input.body, problems) : undefined;
    if (parsed && refusal !== 'none')
      mergeUnknown(problems, this.#refused(parsed.unknownKeys(input.body, body), refusal));
    if (problems.length > 0) throw invalidInput(problems);
    return {
      params: this.#params?.spelled(input.params) ?? input.params,
      query: this.#query?.spelled(input.query) ?? input.query,
      headers: input.headers,
      body,
      stream: input.stream,
    };
  }
}

/** Existing tools of operators ask for pages of 5,000: lists of the admin surface give them the largest there is. */
function largestPage({ surface, method, input: { query } }: Operation): number | undefined {
  if (surface !== 'admin' || method !== 'GET' || !query) return undefined;
  const limit = jsonSchema(query).properties?.limit as { maximum?: number } | undefined;
  return limit?.maximum;
}

function cutPage(query: Record<string, unknown>, largest = Number.NaN): readonly Problem[] {
  const { limit } = query;
  if (typeof limit !== 'number' || !(limit > largest)) return none;
  query.limit = largest;
  return [{ path: 'limit', rule: 'maximum', message: `is ${largest}, the largest page` }];
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** One of params, query and headers. */
class Place {
  readonly fields: TextFields;
  readonly spelled: ReturnType<typeof uuidSpelling>;
  readonly #defaults: readonly (readonly [name: string, value: unknown])[];
  readonly #check: Check;

  constructor(schema: TObject, root: string) {
    this.fields = textFields(schema);
    this.spelled = uuidSpelling(schema);
    this.#defaults = [...this.fields].flatMap(([name, { default: value }]) =>
      value === undefined ? [] : [[name, value] as const],
    );
    this.#check = new Check(schema, root);
  }

  /** With the defaults of what is missing. */
  filled(values: Record<string, unknown>): Record<string, unknown> {
    const missing = this.#defaults.filter(([name]) => values[name] === undefined);
    if (missing.length === 0) return values;
    const filled = { ...values };
    for (const [name, value] of missing) filled[name] = ownDefault(value);
    return filled;
  }

  check(values: Record<string, unknown>, problems: Problem[]): void {
    if (!this.#check.passes(values))
      problems.push(...unreported(this.#check.problems(values), problems));
  }
}

class BodyPlace {
  readonly #schema: JsonSchema;
  readonly #check: Check;
  readonly #project: Projector | undefined;
  readonly #strict: boolean;
  readonly #keyCheck: KeyCheck | undefined;
  #fields: TextFields | undefined;

  constructor(schema: TSchema, strict: boolean) {
    this.#schema = jsonSchema(schema);
    this.#check = new Check(schema, 'body');
    this.#project = compileProjector(this.#schema, { dropNulls: true });
    this.#strict = strict;
    this.#keyCheck = compileKeyCheck(this.#schema, strict);
  }

  /** Keys that the body had and its declaration does not, at its first level. */
  unknownKeys(given: unknown, taken: unknown): readonly Problem[] {
    if (given === taken || !isObject(given) || !isObject(taken)) return none;
    const gone = Object.keys(given).filter((key) => !Object.hasOwn(taken, key));
    if (gone.length === 0) return none;
    const declared = alternatives(this.#schema).flatMap(({ properties = {} }) =>
      Object.keys(properties),
    );
    // Also null goes where a field may be missing.
    const unknown = gone.filter((key) => !declared.includes(key));
    return unknownInput(unknown, declared);
  }

  /** The fields of a form, by the declared types of the body. Forms are flat. */
  decodeForm(form: string, problems: Problem[]): Record<string, unknown> {
    this.#fields ??= textFields(this.#schema as unknown as TObject);
    return decodeQuery(this.#fields, form, problems, (path) => {
      if (this.#strict) problems.push({ path, rule: 'unknown', message: 'is not known here' });
    });
  }

  /** An absent body counts as an empty object, so that the answer names the fields that are missing. */
  accept(body: unknown, problems: Problem[]): unknown {
    const given = body === undefined && this.#schema.type === 'object' ? {} : body;
    const refused = invalidValueProblem(given, '');
    if (refused) {
      problems.push(refused);
      return undefined;
    }
    if (this.#keyCheck) problems.push(...this.#keyCheck(given, ''));
    const value = this.#project ? this.#project(given) : given;
    if (!this.#check.passes(value)) {
      problems.push(...unreported(this.#check.problems(value), problems));
      problems.push(...brokenInstants(this.#schema, value));
    }
    return value;
  }
}

/**
 * Fields for instants whose text is none. The record engine would say so, but it is not asked where the body is wrong
 * already: all problems of a record come in one answer.
 */
function brokenInstants({ properties = {} }: JsonSchema, value: unknown): readonly Problem[] {
  if (!isObject(value)) return [];
  return Object.entries(properties).flatMap(([path, property]) => {
    const given = Object.hasOwn(value, path) ? value[path] : undefined;
    const expected = alternatives(property).some(({ instant }) => instant);
    if (!expected || typeof given !== 'string' || !Number.isNaN(Date.parse(given))) return [];
    return [{ path, rule: 'format', message: notAnInstant }];
  });
}

const notAnInstant =
  'must be an ISO 8601 instant such as 2026-01-31T12:00:00Z, or a date such as 2026-01-31';

/** Fields that failed to decode are not reported a second time as missing or wrong. */
function unreported(found: readonly Problem[], problems: readonly Problem[]): readonly Problem[] {
  const reported = new Set(problems.map((problem) => problem.path));
  return found.filter((problem) => !reported.has(problem.path));
}

/** A compiled validator with readable problems. */
class Check {
  readonly #schema: JsonSchema;
  readonly #validator: ReturnType<typeof Compile>;
  readonly #root: string;

  constructor(schema: TSchema, root: string) {
    this.#schema = jsonSchema(schema);
    this.#validator = Compile(schema);
    this.#root = root;
  }

  passes(value: unknown): boolean {
    return this.#validator.Check(value);
  }

  problems(value: unknown): readonly Problem[] {
    return problemsOf(
      this.#schema,
      this.#validator.Errors(value) as unknown as readonly ValidatorError[],
      this.#root,
    );
  }
}
