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

export type Arguments = Readonly<Record<string, unknown>>;

/** Null counts as left out, as it does in JSON bodies; `populate` adds to what the arguments ask for. */
export function operationInput(
  field: OperationField,
  given: Arguments,
  populate: readonly string[],
): DecodedInput {
  const input = { params: emptyPlace(), query: emptyPlace(), headers: emptyPlace() };
  for (const { argument, place, key, schema, fallback } of field.arguments) {
    const value = resolved(argumentValue(given, argument), schema) ?? fresh(fallback);
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

/** Of its own for each call. */
const fresh = (value: unknown): unknown =>
  typeof value === 'object' ? structuredClone(value) : value;

const emptyPlace = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const argumentValue = (given: Arguments, name: string): unknown =>
  Object.hasOwn(given, name) ? given[name] : undefined;

/** Every root field is resolved by the request that is its context. */
export const resolveOperation: ResolveOperation = (field) => (_source, args, context, info) =>
  (context as FieldRunner).run(field, args as Arguments, info);

interface FieldRunner {
  run(field: OperationField, args: Arguments, info: GraphQLResolveInfo): Promise<unknown>;
  /** The answer of a field of a plain query. The executor gets the same one, where it runs all the same. */
  answer(field: OperationField, args: Arguments, place: FieldPlace): Promise<Answer>;
  /** Headers that operations gave their answers and that stand for the whole. */
  readonly headers: Readonly<Record<string, string>>;
  /** Cookies of all of them. */
  readonly cookies: readonly string[];
}

interface FieldPlace {
  /** In the answer. */
  readonly name: string;
  readonly selection: Selection;
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

  const answers = new Map<string, Promise<Answer>>();

  const call = async (
    field: OperationField,
    args: Arguments,
    { name, selection }: FieldPlace,
  ): Promise<Answer> => {
    const { compiled } = field;
    const nested = new NestedCall(request, compiled, name);
    const admitted = pipeline.admit(nested, { identity, prepaid });
    prepaid = false;
    const caller = admitted instanceof Promise ? await admitted : admitted;
    nested.requested = selection.requested;
    nested.requestedExactly = selection.isPlain;
    const given = operationInput(field, args, selection.populate);
    chargeInput(given);
    const answer = await pipeline.run(nested, caller, compiled.accept(given));
    for (const header of passedOn)
      if (answer.headers[header] !== undefined) headers[header] = answer.headers[header];
    if (answer.cookies) cookies.push(...answer.cookies);
    return answer;
  };

  return {
    headers,
    cookies,
    answer(field, args, place) {
      const answer = call(field, args, place);
      answers.set(place.name, answer);
      return answer;
    },
    async run(field, args, info) {
      const [node] = info.fieldNodes;
      const name = node?.alias?.value ?? field.name;
      const selection = selectionOf(name, info);
      return answeredValue(
        await (answers.get(name) ?? call(field, args, { name, selection })),
        selection,
      );
    },
  };
}

/** A variable counts each time that it is used. */
export function chargeInput(input: DecodedInput): void {
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
