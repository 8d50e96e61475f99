/** A tool call: the operation through the pipeline, as if it had come by HTTP. */
import type { CallToolResult } from '@modelcontextprotocol/server';
import { errors, isValidation, PenstockError } from '../../kernel/errors.ts';
import type { MaybePromise } from '../../kernel/maybe-promise.ts';
import { invalidInput } from '../../kernel/operations/problems.ts';
import { unknownInput } from '../../kernel/operations/unknown-input.ts';
import { type ActionLog, statusOf } from '../../kernel/pipeline/admin-actions.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Call } from '../../kernel/pipeline/context.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { renderError } from '../http/error-answers.ts';
import { NestedCall } from '../http/nested-call.ts';
import type { Tool } from './tool.ts';

export type Arguments = Readonly<Record<string, unknown>>;

export interface ToolCaller {
  /**
   * What is refused is a result with `isError`, arguments that do not fit included (SEP-1303): clients show results to
   * the model, which can do better, and not errors of the protocol.
   */
  call(tool: Tool, args: Arguments): Promise<CallToolResult>;
  /** The same for a tool that is no operation. */
  answer(
    name: string,
    work: () => Promise<CallToolResult> | CallToolResult,
  ): Promise<CallToolResult>;
}

export interface ToolCallerParts {
  readonly pipeline: Pipeline;
  readonly actions: Pick<ActionLog, 'readByModel'>;
  readonly request: Call;
  readonly onInvalid: ((operation: string) => void) | undefined;
  readonly log: Logger;
  /** Whether models may see stored secrets. */
  readonly allowSecrets: boolean;
}

export function createToolCaller({
  pipeline,
  actions,
  request,
  onInvalid,
  log,
  allowSecrets,
}: ToolCallerParts): ToolCaller {
  const nameOf = callNames();
  const called = async (tool: Tool, args: Arguments): Promise<CallToolResult> => {
    const call = new NestedCall(request, tool.compiled, nameOf(tool));
    requireDeclared(tool, args);
    const admitted = pipeline.admit(call);
    const caller = admitted instanceof Promise ? await admitted : admitted;
    const input = tool.compiled.accept(tool.inputOf(args));
    if (!allowSecrets && tool.operation.reveals?.(input)) throw keptFromModels();
    const note = (status: number): void =>
      actions.readByModel(call, caller, { input, given: Object.keys(args), status });
    return success(tool, await noted(note, () => pipeline.run(call, caller, input)));
  };
  const answer: ToolCaller['answer'] = async (name, work) => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof PenstockError))
        log.error({ error, requestId: request.requestId, tool: name }, 'A tool failed');
      return failure(error, request.requestId);
    }
  };
  return {
    answer,
    call: (tool, args) =>
      answer(tool.name, () =>
        called(tool, args).catch((error: unknown) => {
          if (isValidation(error)) onInvalid?.(tool.operation.id);
          throw error;
        }),
      ),
  };
}

/** Of the calls of one request, by which an Idempotency-Key tells them apart: a batch comes again in its order. */
function callNames(): (tool: Pick<Tool, 'name'>) => string {
  const counts = new Map<string, number>();
  return ({ name }) => {
    const before = counts.get(name) ?? 0;
    counts.set(name, before + 1);
    return before === 0 ? name : `${before}.${name}`;
  };
}

async function noted(
  note: (status: number) => void,
  work: () => MaybePromise<Answer>,
): Promise<Answer> {
  try {
    const answer = await work();
    note(answer.status);
    return answer;
  } catch (error) {
    note(statusOf(error));
    throw error;
  }
}

const keptFromModels = () =>
  errors.FORBIDDEN({
    message: 'Operators of this installation keep secrets from models (admin.mcp.allowSecrets)',
  });

/** Arguments that the tool does not declare are a mistake of the model; dropping them would hide it. */
export function requireDeclared({ description }: Pick<Tool, 'description'>, args: Arguments): void {
  const declared = (description.inputSchema as { properties: object }).properties;
  const unknown = Object.keys(args).filter((key) => !Object.hasOwn(declared, key));
  if (unknown.length > 0) throw invalidInput(unknownInput(unknown, Object.keys(declared)));
}

/** A failure that the operation answered without throwing (`GET /ready`) is a report, not an error. */
function success({ operation: { method, path } }: Tool, answer: Answer): CallToolResult {
  const data: unknown = answer.json && answer.body !== '' ? JSON.parse(answer.body) : answer.body;
  return outcome({ success: true, message: `Executed ${method} ${path}`, data });
}

function failure(error: unknown, requestId: string): CallToolResult {
  const body = bodyOf(error, requestId);
  return {
    content: [{ type: 'text', text: JSON.stringify(body) }],
    structuredContent: { success: false, error: body },
    isError: true,
  };
}

/** The body that HTTP answers. */
const bodyOf = (error: unknown, requestId: string): Record<string, unknown> =>
  JSON.parse(renderError(error, 'admin', requestId).body) as Record<string, unknown>;

export const outcome = (structuredContent: {
  readonly success: true;
  readonly message: string;
  readonly data: unknown;
}): CallToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(structuredContent) }],
  structuredContent,
});
