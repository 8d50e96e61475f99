/** Runs the operations of a request's root fields and brings their answers into the form of their types. */
import type { GraphQLResolveInfo } from 'graphql';
import type { Identity } from '../../kernel/identity.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Call } from '../../kernel/pipeline/context.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { currentAccount, jsonSize } from '../../kernel/request-account/request-account.ts';
import { NestedCall } from '../http/nested-call.ts';
import type { PreparedOperation } from './documents.ts';
import type { OperationField, ResolveOperation } from './fields.ts';
import { resolved } from './scalars.ts';
import { readSelection, type Selection, standIds } from './selection.ts';
import type { TypeBuilder } from './types.ts';

/* From the arguments of a field to the input of its operation. */

type Arguments = Readonly<Record<string, unknown>>;

/** Null counts as left out, as it does in JSON bodies; `populate` adds to what the arguments ask for. */
function operationInput(
  field: OperationField,
  given: Arguments,
  populate: readonly string[],
): DecodedInput {
  const input = { params: emptyPlace(), query: emptyPlace(), headers: emptyPlace() };
  for (const { argument, place, key, schema, fallback } of field.arguments) {
    const value = resolved(argumentValue(given, argument), schema) ?? structuredClone(fallback);
    if (value !== undefined) input[place][key] = value;
  }
  if (field.populates && populate.length > 0) {
    const asked = Array.isArray(input.query.populate) ? (input.query.populate as unknown[]) : [];
    input.query.populate = [...new Set([...asked, ...populate])];
  }
  return {
    ...input,
    body:
      field.body &&
      (resolved(argumentValue(given, field.body.argument), field.body.schema) ?? undefined),
  };
}

const emptyPlace = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const argumentValue = (given: Arguments, name: string): unknown =>
  Object.hasOwn(given, name) ? given[name] : undefined;

/** Every root field is resolved by the request that is its context. */
export const resolveOperation: ResolveOperation = (field) => (_source, args, context, info) =>
  (context as FieldRunner).run(field, args as Arguments, info);

interface FieldRunner {
  run(field: OperationField, args: Arguments, info: GraphQLResolveInfo): Promise<unknown>;
  /** Headers that operations gave their answers and that stand for the whole. */
  readonly headers: Readonly<Record<string, string>>;
  /** Cookies of all of them. */
  readonly cookies: readonly string[];
}

interface FieldRunnerParts {
  readonly request: Call;
  readonly pipeline: Pipeline;
  readonly identity: Identity;
  readonly types: TypeBuilder;
  readonly operation: PreparedOperation;
}

/** Headers of an operation's answer that mean something on an answer of many. */
const passedOn = ['idempotency-replayed'] as const;

/** The request has paid for its first field. */
export function createFieldRunner({
  request,
  pipeline,
  identity,
  types,
  operation,
}: FieldRunnerParts): FieldRunner {
  const headers: Record<string, string> = {};
  const cookies: string[] = [];
  let prepaid = true;

  const selectionOf = (name: string, info: GraphQLResolveInfo): Selection => {
    const known = operation.selections?.get(name);
    if (known) return known;
    const selection = readSelection(info, types);
    operation.selections?.set(name, selection);
    return selection;
  };

  return {
    headers,
    cookies,
    async run(field, args, info) {
      const { compiled } = field;
      const [node] = info.fieldNodes;
      const name = node?.alias?.value ?? field.name;
      const call = new NestedCall(request, compiled, name);
      const admitted = pipeline.admit(call, { identity, prepaid });
      prepaid = false;
      const caller = admitted instanceof Promise ? await admitted : admitted;
      const selection = selectionOf(name, info);
      call.requested = selection.requested;
      const given = operationInput(field, args, selection.populate);
      chargeInput(given);
      const input = compiled.accept(given);
      const answer = await pipeline.run(call, caller, input);
      for (const header of passedOn)
        if (answer.headers[header] !== undefined) headers[header] = answer.headers[header];
      if (answer.cookies) cookies.push(...answer.cookies);
      return answeredValue(answer, selection);
    },
  };
}

/** A variable counts each time that it is used. */
function chargeInput(input: DecodedInput): void {
  const account = currentAccount();
  account?.charge('bytesIn', jsonSize(input, account.left('bytesIn') + 1));
}

/** An answer that is no JSON is its text; a redirection is the address it leads to. */
function answeredValue(answer: Answer, { links }: Selection): unknown {
  if (answer.headers.location !== undefined) return { result: answer.headers.location };
  if (!answer.json) return answer.body;
  const value: unknown = JSON.parse(answer.body);
  if (links.size > 0) standIds(value, links);
  return value;
}
