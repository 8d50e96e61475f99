/** What requests and answers about functions look like. */
import Type from 'typebox';
import { standardLimit } from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import {
  functionKinds,
  InputsShape,
  NameShape,
  ReturnsShape,
  type StoredFunction,
  TimeoutShape,
} from '../definition/definition.ts';

export const adminFacts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

const Uuid = Type.String({ format: 'uuid' });
const Time = Type.String({ format: 'date-time' });
/** Ids that cannot be one are 404 like those that nothing has. */
export const IdParam = Type.String({ minLength: 1, maxLength: 100, description: 'Its id' });
export const FunctionParams = Type.Object({ id: IdParam });

export const Paging = {
  ...pagingQuery({ maxLimit: 200 }),
};

const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** Code as it is sent: how long it may be is a setting. */
const Code = Type.String({
  minLength: 1,
  maxLength: 4_194_304,
  description:
    'JavaScript or TypeScript: the body of a function of (grpcSdk, req, res), or a module whose default export is called with (ctx, req, res)',
});

export const NewFunctionShape = Type.Object({
  name: NameShape,
  functionCode: Code,
  functionType: Type.Enum([...functionKinds], { description: 'What starts it' }),
  inputs: Type.Optional(InputsShape),
  returns: Type.Optional(orNull(ReturnsShape)),
  timeout: Type.Optional(TimeoutShape),
});

export const FunctionChangeShape = Type.Object({
  name: Type.Optional(NameShape),
  functionCode: Type.Optional(Code),
  functionType: Type.Optional(
    Type.Enum([...functionKinds], { description: 'What starts it. It never changes' }),
  ),
  inputs: Type.Optional(InputsShape),
  returns: Type.Optional(orNull(ReturnsShape)),
  timeout: Type.Optional(TimeoutShape),
});

export const FunctionView = Type.Object({
  _id: Uuid,
  name: Type.String(),
  functionType: Type.Enum([...functionKinds]),
  functionCode: Type.String(),
  inputs: Type.Unknown(),
  returns: Type.Unknown(),
  timeout: Type.Integer(),
  enabled: Type.Boolean(),
  version: Type.Integer({ description: 'Counts up with each change' }),
  checksum: Type.String(),
  language: Type.Enum(['javascript', 'typescript']),
  state: Type.Enum(['active', 'disabled', 'error']),
  problem: orNull(Type.String({ description: 'Why it does not serve' })),
  nextRuns: Type.Optional(
    Type.Array(Time, { description: 'Of schedules: the next five times, in UTC' }),
  ),
  createdAt: Time,
  updatedAt: Time,
});

/** `problem`: why it does not serve, where it should. */
export function functionOnWire(
  { facts, damage, ...given }: StoredFunction,
  functionCode: string,
  {
    problem,
    nextRuns,
  }: { readonly problem: string | undefined; readonly nextRuns?: readonly Date[] },
) {
  const stored = { ...given, enabled: damage?.enabled ?? given.enabled };
  const state = stored.enabled ? (problem === undefined ? 'active' : 'error') : 'disabled';
  return {
    ...stored,
    functionCode,
    language: facts.language,
    state: state as 'active' | 'disabled' | 'error',
    problem: problem ?? null,
    ...(nextRuns && { nextRuns: nextRuns.map((at) => at.toISOString()) }),
  };
}
