/** What a function is beside its text: kind, inputs, returns (specification functions.md sections 1 to 5). */
import Type, { type Static } from 'typebox';
import type { Problem } from '../../../kernel/errors.ts';
import type { CheckedFacts } from '../engine/protocol.ts';
import { capabilityProblems, capabilityShape } from './capabilities.ts';
import { SignatureShape } from './signature.ts';

export const functionKinds = [
  'request',
  'webhook',
  'middleware',
  'socket',
  'event',
  'cron',
  'hook',
  'workflow',
] as const;
export type FunctionKind = (typeof functionKinds)[number];

export const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

const paramTypes = ['String', 'Number', 'Boolean', 'Date', 'ObjectId', 'Relation', 'JSON'] as const;
const TypeName = Type.Enum([...paramTypes]);
/** A word that is not known would be without effect: `"Auth": true` would leave a route open. */
const closed = { closed: 'all' } as const;
const ParamObject = Type.Object({
  type: Type.Union([TypeName, Type.Array(TypeName, { minItems: 1, maxItems: 1 })]),
  required: Type.Optional(Type.Boolean()),
  description: Type.Optional(Type.String({ maxLength: 500 })),
  enum: Type.Optional(
    Type.Array(Type.Union([Type.String({ maxLength: 200 }), Type.Number()]), {
      minItems: 1,
      maxItems: 100,
    }),
  ),
});
/** `"String"`, `["String"]`, or `{type, required, description, enum}`. */
export const ParamShape = Type.Union([
  TypeName,
  Type.Array(TypeName, { minItems: 1, maxItems: 1 }),
  ParamObject,
]);
export type Param = Static<typeof ParamShape>;

const Params = Type.Record(Type.String(), ParamShape, {
  maxProperties: 100,
  description: 'Name -> type, [type] or {type, required, description, enum}',
});

const Requires = Type.Object(
  {
    action: Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'An action of the resource definition',
    }),
    schema: Type.String({ minLength: 1, maxLength: 64, description: 'The schema of the record' }),
    param: Type.String({ maxLength: 64, description: 'The required parameter that holds its id' }),
  },
  {
    ...closed,
    additionalProperties: false,
    description: 'Of request functions: an action that callers need on a record that they name',
  },
);
export type FunctionRequires = Static<typeof Requires>;

export const InputsShape = Type.Object(
  {
    method: Type.Optional(Type.Enum([...methods])),
    event: Type.Optional(
      Type.String({ minLength: 1, maxLength: 200, description: 'Event, socket event or schedule' }),
    ),
    auth: Type.Optional(Type.Boolean({ description: 'Needs a signed-in user' })),
    bodyParams: Type.Optional(Params),
    queryParams: Type.Optional(Params),
    urlParams: Type.Optional(Params),
    rights: Type.Optional(
      Type.Enum(['caller', 'system'], {
        description: '`system`: the code may use `ctx.system`, which nothing is forbidden to',
      }),
    ),
    capabilities: Type.Optional(capabilityShape),
    signature: Type.Optional(SignatureShape),
    requires: Type.Optional(Requires),
    async: Type.Optional(
      Type.Boolean({
        description: 'Webhooks: 202 at once; the code runs afterwards, and again when it fails',
      }),
    ),
    memoryMb: Type.Optional(Type.Integer({ minimum: 8, maximum: 2_048 })),
    cpuMs: Type.Optional(Type.Integer({ minimum: 10, maximum: 600_000 })),
    cronPattern: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    timezone: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
    overlap: Type.Optional(Type.Enum(['skip', 'queue', 'parallel'])),
    missed: Type.Optional(Type.Enum(['once', 'none'])),
    orderBy: Type.Optional(
      Type.String({
        maxLength: 200,
        description:
          'Path in the record or the payload; what has the same value there runs in order',
      }),
    ),
    attempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    backoffMs: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
    trigger: Type.Optional(
      Type.Object(
        {
          schema: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
          op: Type.String({
            minLength: 1,
            maxLength: 64,
            description: '`create`, `update`, `delete` of records; `signUp`, `signIn`, `send`',
          }),
          when: Type.Enum(['before', 'after']),
        },
        closed,
      ),
    ),
  },
  { ...closed, description: 'What starts it, what comes in, and what the code may use' },
);
export type FunctionInputs = Static<typeof InputsShape>;

export const ReturnsShape = Type.Union(
  [
    Type.Literal('String'),
    Type.Record(Type.String(), Type.Unknown(), {
      maxProperties: 200,
      description: 'Key -> type, [type] or nested keys: exactly these keys are answered',
    }),
  ],
  { description: 'What it answers' },
);
export type FunctionReturns = string | Readonly<Record<string, unknown>>;

export const NameShape = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z_][A-Za-z0-9_-]*$',
  description: 'Letters, digits, - and _: it is a part of paths',
});
export const TimeoutShape = Type.Integer({
  minimum: 10,
  maximum: 3_600_000,
  description: 'Milliseconds that one run may take',
});

/** Milliseconds of a function that says nothing about it. */
export const DEFAULT_TIMEOUT = 180_000;

export interface FunctionDefinition {
  readonly name: string;
  readonly functionType: FunctionKind;
  readonly inputs: FunctionInputs;
  readonly returns: FunctionReturns | null;
  /** Milliseconds. */
  readonly timeout: number;
}

/** A function as every node knows it: without its text. */
export interface StoredFunction extends FunctionDefinition {
  readonly _id: string;
  readonly enabled: boolean;
  /** Counts up with each change of the text or the definition. */
  readonly version: number;
  readonly checksum: string;
  readonly facts: Pick<CheckedFacts, 'form' | 'language'>;
  /**
   * Set where what is stored cannot be used. Then it is off, and its definition stands in for the stored one; `enabled`
   * is what is stored.
   */
  readonly damage?: { readonly problem: string; readonly enabled: boolean };
  readonly createdAt: string;
  readonly updatedAt: string;
}

const paramName = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;
const problem = (path: string, rule: string, message: string): Problem => ({ path, rule, message });

/** Names that Socket.IO and the session of a socket have for themselves. */
export const reservedSocketEvents: ReadonlySet<string> = new Set([
  'connect',
  'connect_error',
  'disconnect',
  'disconnecting',
  'newListener',
  'removeListener',
  'refreshAuth',
  'authenticate',
]);

/** What is wrong with a definition beyond its shape. */
export function definitionProblems(definition: FunctionDefinition): readonly Problem[] {
  const { functionType, inputs, name } = definition;
  const problems = [...socketProblems(definition)];
  if (name in Object.prototype || name === 'list' || name === 'executions')
    problems.push(problem('name', 'name', 'this name is taken by the platform'));
  const { method, bodyParams, signature } = inputs;
  const needsMethod = functionType === 'request' || functionType === 'webhook';
  if (needsMethod && method === undefined)
    problems.push(problem('inputs.method', 'required', `is needed: one of ${methods.join(', ')}`));
  if (bodyParams && (method === 'GET' || method === 'DELETE') && Object.keys(bodyParams).length > 0)
    problems.push(problem('inputs.bodyParams', 'location', `${method} has no body`));
  if (inputs.async && functionType !== 'webhook')
    problems.push(problem('inputs.async', 'kind', 'only webhooks are answered before they run'));
  if (signature && functionType !== 'webhook')
    problems.push(problem('inputs.signature', 'kind', 'only webhooks have a signature'));
  if (signature?.scheme === 'hmac-sha256' && signature.header === undefined)
    problems.push(problem('inputs.signature.header', 'required', 'is needed for hmac-sha256'));
  return [
    ...problems,
    ...requiresProblems(definition),
    ...paramProblems(inputs),
    ...capabilityProblems(inputs.capabilities),
    ...returnsProblems(definition.returns, 'returns', true),
  ];
}

const returnTypes: ReadonlySet<unknown> = new Set(paramTypes);

function returnsProblems(type: unknown, path: string, isWhole = false): readonly Problem[] {
  if (isWhole && (type === null || type === 'String')) return [];
  if (Array.isArray(type))
    return type.length === 1
      ? returnsProblems(type[0], `${path}.0`)
      : [problem(path, 'type', 'a list has one type in it')];
  if (typeof type === 'object' && type !== null) {
    const inner = isWhole ? undefined : describedType(type);
    if (inner !== undefined) return returnsProblems(inner, `${path}.type`);
    return Object.entries(type).flatMap(([key, one]) => returnsProblems(one, `${path}.${key}`));
  }
  return returnTypes.has(type)
    ? []
    : [problem(path, 'type', `must be one of ${paramTypes.join(', ')}, a list of one, or keys`)];
}

const typeWords: ReadonlySet<string> = new Set([
  ...['type', 'required', 'description', 'enum', 'model'],
]);

/** The type in `{type, required, description}`; nothing for keys of an answer, of which one may be named `type`. */
export function describedType(given: object): unknown {
  const { type } = given as { readonly type?: unknown };
  const isDescribed = Object.keys(given).every((key) => typeWords.has(key));
  return isDescribed && (typeof type === 'string' || Array.isArray(type)) ? type : undefined;
}

function socketProblems({ functionType, inputs, returns }: FunctionDefinition): Problem[] {
  if (functionType !== 'socket') return [];
  const { event } = inputs;
  const problems: Problem[] = [];
  if (event === undefined)
    problems.push(problem('inputs.event', 'required', 'is needed: the name of the socket event'));
  else if (reservedSocketEvents.has(event))
    problems.push(problem('inputs.event', 'name', 'this event is taken by the platform'));
  for (const place of ['queryParams', 'urlParams'] as const)
    if (inputs[place])
      problems.push(problem(`inputs.${place}`, 'kind', 'sockets have bodyParams alone'));
  if (typeof returns === 'object' && returns !== null && Object.hasOwn(returns, 'ok'))
    problems.push(problem('returns.ok', 'name', 'the acknowledgement has an `ok` of its own'));
  return problems;
}

function requiresProblems({ functionType, inputs }: FunctionDefinition): readonly Problem[] {
  const { requires, auth } = inputs;
  if (!requires) return [];
  const wrong = (path: string, rule: string, message: string): readonly Problem[] => [
    problem(`inputs.requires${path}`, rule, message),
  ];
  if (functionType !== 'request')
    return wrong('', 'kind', 'only request functions have callers that need an action');
  if (auth !== true) return wrong('', 'authentication', 'needs auth: visitors have no actions');
  return holdsId(inputs, requires.param)
    ? []
    : wrong('.param', 'reference', 'must be one parameter of a single id that is required');
}

/** True for a parameter that stands in one place alone, and is always there. */
function holdsId(inputs: FunctionInputs, name: string): boolean {
  const [first, ...others] = (['urlParams', 'bodyParams', 'queryParams'] as const).flatMap(
    (place) => {
      const params = inputs[place] ?? {};
      const param = Object.hasOwn(params, name) ? params[name] : undefined;
      return param === undefined ? [] : [{ place, param }];
    },
  );
  if (!first || others.length > 0) return false;
  const { place, param } = first;
  const isObject = typeof param === 'object' && !Array.isArray(param);
  const type = isObject ? param.type : param;
  const required = place === 'urlParams' || (isObject && param.required === true);
  return (
    required && ['String', 'ObjectId', 'Relation'].includes(String(type)) && !Array.isArray(type)
  );
}

function paramProblems(inputs: FunctionInputs): readonly Problem[] {
  return (['bodyParams', 'queryParams', 'urlParams'] as const).flatMap((place) =>
    Object.entries(inputs[place] ?? {}).flatMap(([name, param]) => {
      const path = `inputs.${place}.${name}`;
      if (!paramName.test(name) || name in Object.prototype)
        return problem(path, 'name', 'starts with a letter or _, then letters, digits and _');
      const isList = Array.isArray(
        typeof param === 'object' && 'type' in param ? param.type : param,
      );
      return place === 'urlParams' && isList
        ? problem(path, 'location', 'what stands in the path cannot be a list')
        : [];
    }),
  );
}
