/** Functions that are asked before records are written, and before somebody is signed in. */
import {
  type RecordHookOperation,
  type RecordHookValue,
  recordHookPoint,
} from '../../../data/records/record-hooks.ts';
import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import type { HookHandler } from '../../../kernel/hooks/hooks.ts';
import type { FunctionDefinition, StoredFunction } from '../definition/definition.ts';
import { functionErrors, userErrorOf } from '../errors.ts';
import type { TriggerParts } from './parts.ts';

const operations = ['create', 'update', 'delete'] as const;
const isOperation = (text: string): text is RecordHookOperation =>
  (operations as readonly string[]).includes(text);

/** Milliseconds that a hook may take; the registry has the same bound for all hooks of one write. */
const HOOK_MS = 2_000;

/** What is wrong with the trigger of a definition. */
export function triggerProblems({ functionType, inputs }: FunctionDefinition): readonly Problem[] {
  const problem = (path: string, rule: string, message: string): Problem => ({
    path,
    rule,
    message,
  });
  const { trigger } = inputs;
  if (functionType === 'event' && inputs.event === undefined)
    return [
      problem('inputs.event', 'required', 'is needed: an event such as database:create:Order'),
    ];
  if (functionType !== 'hook')
    return trigger ? [problem('inputs.trigger', 'kind', 'only hooks have a trigger')] : [];
  if (!trigger) return [problem('inputs.trigger', 'required', 'is needed: {schema, op, when}')];
  return [
    ...(isOperation(trigger.op)
      ? []
      : [problem('inputs.trigger.op', 'enum', `must be one of ${operations.join(', ')}`)]),
    ...(trigger.schema === undefined
      ? [problem('inputs.trigger.schema', 'required', 'is needed: the schema of the records')]
      : []),
  ];
}

/** Keeps the hooks of the kernel as the functions say; answers how to take them all away. */
export function followHooks(parts: TriggerParts): () => void {
  const { hooks, store } = parts;
  let registered = new Map<StoredFunction, () => void>();
  const follow = (): void => {
    const next = new Map<StoredFunction, () => void>();
    for (const one of store.all()) {
      const known = registered.get(one);
      const made = known ?? register(parts, hooks, one);
      if (made) next.set(one, made);
    }
    for (const [one, remove] of registered) if (!next.has(one)) remove();
    registered = next;
  };
  follow();
  const stop = store.onChange(follow);
  return () => {
    stop();
    for (const remove of registered.values()) remove();
  };
}

function register(
  parts: TriggerParts,
  hooks: TriggerParts['hooks'],
  one: StoredFunction,
): (() => void) | undefined {
  const { trigger } = one.inputs;
  if (!one.enabled || one.functionType !== 'hook' || trigger?.when !== 'before') return undefined;
  if (trigger.schema === undefined || !isOperation(trigger.op)) return undefined;
  const point = recordHookPoint(trigger.schema, trigger.op);
  return hooks.register<RecordHookValue>(point, one.name, askFunction(parts, one));
}

/** What the function answers takes the place of the input; nothing leaves it. */
const askFunction =
  ({ runner }: TriggerParts, { _id, name }: StoredFunction): HookHandler<RecordHookValue> =>
  async ({ value, caller, signal }) => {
    try {
      const { result } = await runner.run({
        ...{ functionId: _id, req: { ...value }, caller, trigger: 'hook' },
        ...{ deadlineMs: HOOK_MS, signal },
      });
      if (typeof result !== 'object' || result === null || Array.isArray(result)) return undefined;
      return { ...value, input: result as RecordHookValue['input'] };
    } catch (error) {
      throw refusalOf(error, name);
    }
  };

/** A refusal has the message of the code: it is for whoever writes. */
function refusalOf(error: unknown, name: string): unknown {
  if (!(error instanceof PenstockError)) return error;
  if (error.code === functionErrors.FUNCTION_FAILED.code)
    return new Error(userErrorOf(error)?.user.message ?? `The hook ${name} failed`);
  return error;
}
