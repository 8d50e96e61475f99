/** The answers that an operation can really give, from what it declares and from what the pipeline adds. */
import { errors as common, type ErrorFactory, nameOfStatus } from '../../kernel/errors.ts';
import { operationErrors } from '../../kernel/operations/errors.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import { camelName } from '../../kernel/operations/registry.ts';
import { needsApp } from '../../kernel/pipeline/context.ts';
import { takesIdempotencyKey } from '../../kernel/pipeline/idempotency/idempotency.ts';
import { withExample } from './parameters.ts';
import { compare, freeName, type Json, type RecordForm, type SchemaPublisher } from './schemas.ts';

/** `components.schemas.Error`. */
export const errorSchema: Json = {
  type: 'object',
  description: 'What every failed call answers.',
  required: ['name', 'status', 'message', 'code', 'requestId'],
  properties: {
    name: {
      type: 'string',
      description: 'The kind of failure, one per status.',
      example: nameOfStatus(400),
    },
    status: { type: 'integer', description: 'The HTTP status.', example: 400 },
    message: { type: 'string', description: 'What is wrong and what to do about it.' },
    code: {
      type: 'string',
      description: 'Stable name of this failure, for programs.',
      example: 'INVALID_ARGUMENTS',
    },
    conduitCode: { type: 'string', description: 'The same as `code`.' },
    requestId: { type: 'string', description: 'Stands in the log of the server.' },
    error: { type: 'string', description: 'The same as `message`; only on 401.' },
    detail: { type: 'string', description: 'More for operators; only on the admin surface.' },
    errors: {
      type: 'array',
      description: 'Each thing that is wrong with the input.',
      items: {
        type: 'object',
        required: ['path', 'rule', 'message'],
        properties: {
          path: { type: 'string', description: 'Dotted place in the input.' },
          rule: { type: 'string', description: 'The rule that was broken.' },
          message: { type: 'string' },
        },
      },
    },
  },
};

/** All errors of an operation, declared and derived, without repetition. */
export function errorsOf(operation: Operation): readonly ErrorFactory[] {
  const { input, access } = operation;
  const takesBody = input.body || input.stream;
  const takesInput = input.params || input.query || input.headers || takesBody;
  const all = new Set<ErrorFactory>([
    ...(takesInput ? [common.INVALID_ARGUMENTS] : []),
    ...(input.body ? [common.JSON_MALFORMED] : []),
    ...(takesBody ? [common.PAYLOAD_TOO_LARGE, common.UNSUPPORTED_MEDIA_TYPE] : []),
    ...accessErrors(access),
    ...cookieErrors(operation),
    ...(access === 'admin' || access === 'superAdmin' ? adminErrors(operation) : []),
    ...(takesIdempotencyKey(operation)
      ? [operationErrors.IDEMPOTENCY_KEY_INVALID, common.IDEMPOTENCY_KEY_REUSED]
      : []),
    common.RATE_LIMIT,
    common.INTERNAL_SERVER_ERROR,
    common.UNAVAILABLE,
    common.TIMEOUT,
    ...(operation.errors ?? []),
  ]);
  return [...all];
}

function accessErrors(access: Operation['access']): readonly ErrorFactory[] {
  if (access === 'public') return [];
  const needsComplete = access === 'user' || access === 'optionalUser';
  return needsComplete
    ? [common.UNAUTHORIZED, operationErrors.SECOND_FACTOR_REQUIRED]
    : [common.UNAUTHORIZED];
}

/** Cookies are credentials of users, and changes by them need a page that may. */
const cookieErrors = ({ surface, method, access }: Operation): readonly ErrorFactory[] =>
  surface === 'client' && method !== 'GET' && access !== 'public'
    ? [operationErrors.CSRF_REFUSED]
    : [];

const adminErrors = (operation: Operation): readonly ErrorFactory[] => [
  ...(operation.access === 'superAdmin' ? [common.FORBIDDEN] : []),
  ...(operation.beforePasswordChange ? [] : [operationErrors.PASSWORD_CHANGE_REQUIRED]),
];

/** The `responses` object of an operation. Statuses ascend. */
export function responsesOf(operation: Operation, { failures, ...context }: ResponseContext): Json {
  const success = successOf(operation, 'The call succeeded.', context);
  const { otherStatuses = {}, tag } = operation;
  if (tag !== undefined)
    return {
      200: context.answers.placed(success, operation),
      default: failuresTogether(operation, failures),
    };
  const responses = new Map<string, Json>([['200', success]]);
  const byDefault = context.isLarge ? mostlyAnywhere : anywhere;
  const ofApp = context.needsApps && needsApp(operation) ? [common.UNAUTHORIZED] : [];
  const all = new Set([...errorsOf(operation), ...ofApp]);
  const own = [...all].filter((factory) => !byDefault.has(factory));
  for (const [status, factories] of byStatus(own)) {
    if (!(status in otherStatuses)) responses.set(`${status}`, failures.publish(factories));
  }
  for (const [status, when] of Object.entries(otherStatuses)) {
    responses.set(status, successOf(operation, when, context));
  }
  const sorted = Object.fromEntries([...responses].sort(([a], [b]) => compare(a, b)));
  return { ...sorted, default: failures.publishDefault([...byDefault]) };
}

/**
 * There may be hundreds of schemas with a dozen operations each, which fail in the same ways: one entry for all of
 * them, whose text and examples say which there are, keeps the document small.
 */
function failuresTogether(operation: Operation, failures: FailurePublisher): Json {
  const name = operation.id.slice(operation.id.lastIndexOf('.') + 1);
  return failures.publish(errorsOf(operation), name);
}

/** Answers of operations of schemas; what several of them answer stands once, under `components.responses`. */
export interface AnswerPublisher {
  placed(answer: Json, operation: Operation): Json;
  /** To be asked once, when all operations are described. */
  finish(): Readonly<Record<string, Json>>;
}

export function createAnswerPublisher(): AnswerPublisher {
  const found = new Map<
    string,
    { answer: Json; name: string; places: Record<string, unknown>[] }
  >();
  return {
    placed(answer, { method, path }) {
      const place = {};
      const text = JSON.stringify(answer);
      const same = found.get(text);
      if (same) same.places.push(place);
      else
        found.set(text, { answer, name: nameIn(text) ?? camelName(method, path), places: [place] });
      return place;
    },
    finish() {
      const components = new Map<string, Json>();
      for (const { answer, name: requested, places } of found.values()) {
        const isShared = places.length > 1;
        const name = freeName(requested, components);
        if (isShared) components.set(name, answer);
        const stands = isShared ? { $ref: `#/components/responses/${name}` } : answer;
        for (const place of places) Object.assign(place, stands);
      }
      return Object.fromEntries([...components].sort(([a], [b]) => compare(a, b)));
    },
  };
}

/** The name of the one schema that the answer refers to. */
function nameIn(text: string): string | undefined {
  const names = [...text.matchAll(/"#\/components\/schemas\/([\w.-]+)"/g)].map(([, name]) => name);
  return names.length === 1 && text.includes('"schema":{"$ref"') ? names[0] : undefined;
}

interface ResponseContext {
  /** Without examples. */
  readonly isLarge: boolean;
  readonly schemas: SchemaPublisher;
  readonly answers: AnswerPublisher;
  readonly failures: FailurePublisher;
  readonly form: RecordForm;
  /** Whether a call is 401 where it comes from an app that nobody has registered. */
  readonly needsApps: boolean;
}

/** Failures that have nothing to do with the operation: `default` stands for them. */
const anywhere: ReadonlySet<ErrorFactory> = new Set([
  common.INTERNAL_SERVER_ERROR,
  common.UNAVAILABLE,
  common.TIMEOUT,
]);

/** What nearly every operation can answer too; large descriptions say that once. */
const mostlyAnywhere: ReadonlySet<ErrorFactory> = new Set([
  ...anywhere,
  common.RATE_LIMIT,
  common.PAYLOAD_TOO_LARGE,
  common.UNSUPPORTED_MEDIA_TYPE,
]);

/** Puts each different failure once under `components.responses`; most operations fail in the same few ways. */
export interface FailurePublisher {
  /** `name`: under which it stands, if it is free; made of its codes unless given. */
  publish(factories: readonly ErrorFactory[], name?: string): Json;
  /** For every status that is not listed. */
  publishDefault(factories: readonly ErrorFactory[]): Json;
  components(): Readonly<Record<string, Json>>;
}

/** `isLarge`: without examples, which repeat what the text says. */
export function createFailurePublisher({ isLarge }: { isLarge: boolean }): FailurePublisher {
  const names = new Map<string, string>();
  const components = new Map<string, Json>();
  const known = new Map<string, { factories: readonly ErrorFactory[]; reference: Json }>();
  const publishNew = (factories: readonly ErrorFactory[], requested: string): Json => {
    const failure = failureOf(factories, !isLarge);
    const text = JSON.stringify(failure);
    // Modules may word the same code differently.
    const name = names.get(text) ?? freeName(requested, components);
    names.set(text, name);
    components.set(name, failure);
    return { $ref: `#/components/responses/${name}` };
  };
  return {
    publish(factories, name) {
      const codes = factories.map(({ code }) => code);
      const key = name ?? codes.join('.');
      const same = known.get(key);
      if (same && isEqual(same.factories, factories)) return same.reference;
      const reference = publishNew(factories, isLarge ? (name ?? codes[0] ?? DEFAULT) : key);
      known.set(key, { factories, reference });
      return reference;
    },
    publishDefault(factories) {
      if (!components.has(DEFAULT)) components.set(DEFAULT, failureOf(factories, !isLarge));
      return { $ref: `#/components/responses/${DEFAULT}` };
    },
    components: () => Object.fromEntries([...components].sort(([a], [b]) => compare(a, b))),
  };
}

const isEqual = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.length === other.length && one.every((value, i) => value === other[i]);

const DEFAULT = 'Error';

function successOf(
  operation: Operation,
  description: string,
  { schemas, form, isLarge }: Pick<ResponseContext, 'schemas' | 'form' | 'isLarge'>,
): Json {
  const schema = schemas.publish(operation.output, form);
  const media =
    typeof schema.contentMediaType === 'string' ? schema.contentMediaType : 'application/json';
  const text =
    operation.textAnswer === undefined
      ? {}
      : {
          [operation.textType ?? 'text/plain']: {
            schema: { type: 'string', description: operation.textAnswer },
          },
        };
  const streams = Object.entries(operation.streams ?? {}).map(([type, holds]) => [
    type,
    { schema: { type: 'string', description: holds } },
  ]);
  const hasExample = media === 'application/json' && !isLarge;
  const answer = hasExample ? withExample(schema, operation.output, operation) : { schema };
  return { description, content: { [media]: answer, ...text, ...Object.fromEntries(streams) } };
}

function byStatus(
  factories: readonly ErrorFactory[],
): ReadonlyMap<number, readonly ErrorFactory[]> {
  const statuses = new Map<number, ErrorFactory[]>();
  for (const factory of factories)
    statuses.set(factory.status, [...(statuses.get(factory.status) ?? []), factory]);
  return statuses;
}

function failureOf(factories: readonly ErrorFactory[], withExamples: boolean): Json {
  const examples = Object.fromEntries(
    factories.map(({ code, message, status }) => [
      code,
      { value: { name: nameOfStatus(status), status, message, code, requestId: 'b2f1c0de' } },
    ]),
  );
  return {
    description: factories
      .map(({ code, message }) => (withExamples ? message : `${code}: ${message}`))
      .join('; or: '),
    ...(factories.some(({ status }) => status === 429 || status === 503)
      ? { headers: { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } }
      : {}),
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error' },
        ...(withExamples && { examples }),
      },
    },
  };
}
