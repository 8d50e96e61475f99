/** Runs the operations of a request's root fields and brings their answers into the form of their types. */
import type { GraphQLResolveInfo } from 'graphql';
import { jsonSize } from '../../kernel/account/json-size.ts';
import { currentAccount } from '../../kernel/account/request-account.ts';
import type { Identity } from '../../kernel/identity.ts';
import type { DecodedInput } from '../../kernel/operation.ts';
import type { Answer } from '../../kernel/operations/answer.ts';
import type { Call } from '../../kernel/operations/context.ts';
import type { Pipeline } from '../../kernel/operations/invoke.ts';
import type { PreparedOperation } from './compiled.ts';
import { FieldCall } from './field-call.ts';
import type { OperationField, ResolveOperation } from './fields.ts';
import { type Arguments, operationInput } from './input.ts';
import { readSelection, type Selection, standIds } from './selection.ts';
import type { TypeBuilder } from './types.ts';

/** Every root field is resolved by the request that is its context. */
export const resolveOperation: ResolveOperation = (field) => (_source, args, context, info) =>
  (context as FieldRunner).run(field, args as Arguments, info);

export interface FieldRunner {
  run(field: OperationField, args: Arguments, info: GraphQLResolveInfo): Promise<unknown>;
  /** Headers that operations gave their answers and that stand for the whole. */
  readonly headers: Readonly<Record<string, string>>;
  /** Cookies of all of them. */
  readonly cookies: readonly string[];
}

export interface FieldRunnerParts {
  readonly request: Call;
  readonly pipeline: Pipeline;
  readonly identity: Identity;
  readonly types: TypeBuilder;
  readonly operation: PreparedOperation;
}

/** Headers of an operation's answer that mean something on an answer of many. */
const passedOn = ['idempotency-replayed'] as const;

/** The request has paid for its first field. */
export function createFieldRunner({ request, pipeline, identity, types, operation }: FieldRunnerParts): FieldRunner {
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
      const call = new FieldCall(request, compiled, name);
      const admitted = pipeline.admit(call, { identity, prepaid });
      prepaid = false;
      const caller = admitted instanceof Promise ? await admitted : admitted;
      const selection = selectionOf(name, info);
      call.wanted = selection.wanted;
      const given = operationInput(field, args, selection.populate);
      chargeInput(given);
      const input = compiled.accept(given);
      const answer = await pipeline.run(call, caller, input);
      for (const header of passedOn) if (answer.headers[header] !== undefined) headers[header] = answer.headers[header];
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
