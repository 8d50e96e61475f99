/** Runs the operations of a request's root fields and brings their answers into the form of their types. */
import type { GraphQLResolveInfo } from 'graphql';
import type { Identity } from '../../kernel/identity.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Call } from '../../kernel/pipeline/context.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { NestedCall } from '../http/nested-call.ts';
import type { PreparedOperation } from './documents.ts';
import { type Arguments, checkedInput } from './field-input.ts';
import type { OperationField, ResolveOperation } from './fields.ts';
import { readSelection, type Selection, standIds } from './selection.ts';
import type { TypeBuilder } from './types.ts';

/** Every root field is resolved by the request that is its context. */
export const resolveOperation: ResolveOperation = (field) => (_source, args, context, info) =>
  (context as FieldRunner).run(field, args as Arguments, info);

interface FieldRunner {
  run(field: OperationField, args: Arguments, info: GraphQLResolveInfo): Promise<unknown>;
  /** The answer of a field of a plain query. The executor gets the same one, where it runs all the same. */
  answer(field: OperationField, place: FieldPlace, input: () => DecodedInput): Promise<Answer>;
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

/** Told of each operation that ran; `error`: what refused it. */
export type MeasureField = (operation: string, seconds: number, error?: unknown) => void;

interface FieldRunnerParts {
  readonly request: Call;
  readonly pipeline: Pipeline;
  readonly identity: Identity;
  readonly types: TypeBuilder;
  readonly operation: PreparedOperation;
  readonly measure?: MeasureField | undefined;
}

type CallField = (
  field: OperationField,
  place: FieldPlace,
  input: () => DecodedInput,
) => Promise<Answer>;

const measured = (measure: MeasureField | undefined, call: CallField): CallField => {
  if (!measure) return call;
  return async (field, place, input) => {
    const began = performance.now();
    const told = (error?: unknown): void =>
      measure(field.compiled.operation.id, (performance.now() - began) / 1_000, error);
    try {
      const answer = await call(field, place, input);
      told();
      return answer;
    } catch (error) {
      told(error);
      throw error;
    }
  };
};

/** Headers of an operation's answer that mean something on an answer of many. */
const passedOn = ['idempotency-replayed'] as const;

/** The request has paid for its first field. */
export function createFieldRunner({
  request,
  pipeline,
  identity,
  types,
  operation,
  measure,
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

  let answers: Map<string, Promise<Answer>> | undefined;

  const call: CallField = measured(measure, async ({ compiled }, { name, selection }, input) => {
    const nested = new NestedCall(request, compiled, name);
    const admitted = pipeline.admit(nested, { identity, prepaid });
    prepaid = false;
    const caller = admitted instanceof Promise ? await admitted : admitted;
    nested.requested = selection.requested;
    nested.requestedExactly = selection.isPlain;
    const answer = await pipeline.run(nested, caller, input());
    for (const header of passedOn)
      if (answer.headers[header] !== undefined) headers[header] = answer.headers[header];
    if (answer.cookies) cookies.push(...answer.cookies);
    return answer;
  });

  return {
    headers,
    cookies,
    answer(field, place, input) {
      const answer = call(field, place, input);
      answers ??= new Map();
      answers.set(place.name, answer);
      return answer;
    },
    async run(field, args, info) {
      const [node] = info.fieldNodes;
      const name = node?.alias?.value ?? field.name;
      const selection = selectionOf(name, info);
      return answeredValue(
        await (answers?.get(name) ??
          call(field, { name, selection }, () => checkedInput(field, args, selection.populate))),
        selection,
      );
    },
  };
}

/** An answer that is no JSON is its text; a redirection is the address it leads to. */
function answeredValue(answer: Answer, { links }: Selection): unknown {
  if (answer.headers.location !== undefined) return { result: answer.headers.location };
  if (!answer.json) return answer.body;
  const value: unknown = JSON.parse(answer.body);
  if (links.size > 0) standIds(value, links);
  return value;
}
