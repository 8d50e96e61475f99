/** Runs the operations of a request's root fields and brings their answers into the form of their types. */
import { GraphQLError, type GraphQLResolveInfo } from 'graphql';
import type { Identity } from '../../kernel/identity.ts';
import { andThen, concluded, type MaybePromise } from '../../kernel/maybe-promise.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Call } from '../../kernel/pipeline/context.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { NestedCall } from '../http/nested-call.ts';
import type { MeasureField } from '../http/request-metrics.ts';
import type { PreparedOperation } from './documents.ts';
import { type Arguments, checkedInput } from './field-input.ts';
import type { OperationField, ResolveOperation } from './fields.ts';
import type { FieldCaller, FieldPlace } from './plain-query.ts';
import { readSelection, type Selection, standIds } from './selection.ts';
import type { TypeBuilder } from './types.ts';

/** Every root field is resolved by the request that is its context. */
export const resolveOperation: ResolveOperation = (field) => (_source, args, context, info) =>
  (context as FieldRunner).run(field, args as Arguments, info);

/** Of the standard budget: a request pays once, whether it holds one operation or a list of them. */
export interface Payment {
  isLeft: boolean;
}

interface FieldRunnerParts {
  readonly request: Call;
  readonly pipeline: Pipeline;
  readonly identity: Identity;
  readonly payment: Payment;
  /** Of the operation in the request. */
  readonly place: number;
  readonly types: TypeBuilder;
  readonly operation: PreparedOperation;
  readonly measure?: MeasureField | undefined;
}

/** Headers of an operation's answer that mean something on an answer of many. */
const passedOn = ['idempotency-replayed'] as const;

/** Runs the fields of one operation. */
export class FieldRunner implements FieldCaller {
  /** Headers that operations gave their answers and that stand for the whole. */
  readonly headers: Record<string, string> = {};
  /** Cookies of all of them. */
  cookies: readonly string[] = noCookies;
  readonly #parts: FieldRunnerParts;
  #known: Map<string, Answer | GraphQLError> | undefined;

  constructor(parts: FieldRunnerParts) {
    this.#parts = parts;
  }

  answer(
    { compiled }: OperationField,
    { name, selection }: FieldPlace,
    input: () => DecodedInput,
  ): MaybePromise<Answer> {
    const { request, pipeline, identity, payment, place, operation, measure } = this.#parts;
    const { id } = compiled.operation;
    // A GraphQL name has no dot, so no two fields of a request are one call.
    const call = new NestedCall(request, compiled, place === 0 ? name : `${place}.${name}`);
    call.isPart = operation.measure.costs.length > 1;
    call.requested = selection.requested;
    call.requestedExactly = selection.isPlain;
    const began = performance.now();
    const secondsSince = (): number => (performance.now() - began) / 1_000;
    return concluded(
      () => {
        const admitted = pipeline.admit(call, { identity, prepaid: payment.isLeft });
        payment.isLeft = false;
        return andThen(admitted, (caller) => pipeline.run(call, caller, input()));
      },
      (answer) => {
        measure?.(id, secondsSince());
        this.#take(answer);
        return answer;
      },
      (error) => {
        measure?.(id, secondsSince(), error);
        throw error;
      },
    );
  }

  keep(name: string, outcome: Answer | GraphQLError): void {
    this.#known ??= new Map();
    this.#known.set(name, outcome);
  }

  async run(field: OperationField, args: Arguments, info: GraphQLResolveInfo): Promise<unknown> {
    const [node] = info.fieldNodes;
    const name = node?.alias?.value ?? field.name;
    const known = this.#known?.get(name);
    if (known instanceof GraphQLError) throw known.originalError ?? known;
    const selection = this.#selectionOf(name, info);
    const input = (): DecodedInput => checkedInput(field, args, selection.populate);
    return answeredValue(
      known ?? (await this.answer(field, { name, selection }, input)),
      selection,
    );
  }

  #take({ headers, cookies }: Answer): void {
    for (const header of passedOn) {
      const value = headers[header];
      if (value !== undefined) this.headers[header] = value;
    }
    if (cookies) this.cookies = [...this.cookies, ...cookies];
  }

  #selectionOf(name: string, info: GraphQLResolveInfo): Selection {
    const { operation, types } = this.#parts;
    const known = operation.selections?.get(name);
    if (known) return known;
    const selection = readSelection(info, types);
    operation.selections?.set(name, selection);
    return selection;
  }
}

const noCookies: readonly string[] = [];

/** An answer that is no JSON is its text; a redirection is the address it leads to. */
function answeredValue(answer: Answer, { links, requested }: Selection): unknown {
  if (answer.headers.location !== undefined) return { result: answer.headers.location };
  if (!answer.json) return requested.size > 0 ? { result: answer.body } : answer.body;
  const value: unknown = JSON.parse(answer.body);
  if (links.size > 0) standIds(value, links);
  return value;
}
