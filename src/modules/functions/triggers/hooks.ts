/** Functions that are asked before records are written, before accounts and sessions are made, and before messages go out. */
import {
  type RecordHookOperation,
  type RecordHookValue,
  recordHookPoint,
} from '../../../data/records/record-hook-value.ts';
import { PenstockError, type Problem } from '../../../kernel/errors.ts';
import type { HookCall, HookHandler } from '../../../kernel/hooks/hooks.ts';
import {
  type MessageHookValue,
  type SignInHookValue,
  type SignUpHookValue,
  sendPoint,
  signInPoint,
  signUpPoint,
} from '../../../kernel/hooks/points.ts';
import { shortened } from '../../../kernel/text.ts';
import type { FunctionDefinition, StoredFunction } from '../definition/definition.ts';
import { functionErrors, userErrorOf } from '../errors.ts';
import { ownCaller, type TriggerParts } from './parts.ts';

const operations = ['create', 'update', 'delete'] as const;
const isOperation = (text: string): text is RecordHookOperation =>
  (operations as readonly string[]).includes(text);

/** What the database tells of records, and the module of its endpoints. */
const recordEvents: ReadonlySet<string> = new Set([
  ...['create', 'update', 'delete', 'restore', 'purge', 'customEndpoints'],
]);

/** What a function answers, as an object. */
type Answer = Readonly<Record<string, unknown>>;

/** Something that is no record and has hooks. */
interface Matter {
  readonly point: string;
  /** Events of which those after it hear. */
  readonly topics: readonly string[];
  /** What of the value the code may answer anew. */
  readonly changes: readonly string[];
  /** The value with the answer of the code in it. Throws for what makes no sense. */
  readonly take: (value: never, answer: Answer) => object;
}

const objectIn = (answer: Answer, key: string): Answer => {
  const value = answer[key] ?? {};
  if (typeof value === 'object' && !Array.isArray(value)) return value as Answer;
  throw new Error(`The hook answers ${key} that is no object`);
};

const textsIn = (answer: Answer, keys: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    keys.flatMap((key) => {
      const value = answer[key];
      if (value === undefined || value === null) return [];
      if (typeof value === 'string') return [[key, value]];
      throw new Error(`The hook answers ${key} that is no text`);
    }),
  );

const matters: ReadonlyMap<string, Matter> = new Map<string, Matter>([
  [
    'signUp',
    {
      point: signUpPoint,
      topics: ['authentication:register:user'],
      changes: ['userData'],
      take: (value: SignUpHookValue, answer) => ({
        ...value,
        userData: { ...value.userData, ...objectIn(answer, 'userData') },
      }),
    },
  ],
  [
    'signIn',
    {
      point: signInPoint,
      topics: ['authentication:login:user'],
      changes: ['claims'],
      take: (value: SignInHookValue, answer) => ({
        ...value,
        claims: { ...value.claims, ...objectIn(answer, 'claims') },
      }),
    },
  ],
  [
    'send',
    {
      point: sendPoint,
      topics: ['communications:sent:*', 'communications:captured:*'],
      changes: ['subject', 'html', 'text', 'title', 'data'],
      take: (value: MessageHookValue, answer) => {
        const { data } = answer;
        const given = data === undefined ? undefined : objectIn(answer, 'data');
        return {
          ...value,
          ...textsIn(answer, ['subject', 'html', 'text', 'title']),
          ...(given && { data: textsIn(given, Object.keys(given)) }),
        };
      },
    },
  ],
]);

/** Topics of which a hook after something hears that is no record. */
export const topicsAfter = (op: string): readonly string[] => matters.get(op)?.topics ?? [];

const problem = (path: string, rule: string, message: string): Problem => ({ path, rule, message });

/** What is wrong with the event that starts it: none that there can ever be. `origins`: the modules. */
function eventProblems(
  { functionType, inputs: { event } }: FunctionDefinition,
  origins: readonly string[],
): Problem[] {
  if (functionType !== 'event' && functionType !== 'workflow') return [];
  if (event === undefined)
    return functionType === 'workflow'
      ? []
      : [problem('inputs.event', 'required', 'is needed: an event such as database:create:Order')];
  const [origin = '', what = '', ...about] = event.split(':');
  const isKnown =
    event.endsWith('*') && !event.includes(':')
      ? origins.some((one) => one.startsWith(event.slice(0, -1)))
      : what !== '' && origins.includes(origin);
  if (!isKnown) {
    const example = 'such as database:create:Order';
    return [problem('inputs.event', 'enum', `${example}: it begins with ${origins.join(', ')}`)];
  }
  if (origin !== 'database' || about.length === 0 || recordEvents.has(what)) return [];
  return [problem('inputs.event', 'enum', `database: has ${[...recordEvents].join(', ')}`)];
}

/** What is wrong with what starts a definition. */
export function triggerProblems(
  definition: FunctionDefinition,
  origins: readonly string[],
): readonly Problem[] {
  const { functionType, inputs } = definition;
  const { trigger } = inputs;
  if (functionType !== 'hook')
    return [
      ...eventProblems(definition, origins),
      ...(trigger ? [problem('inputs.trigger', 'kind', 'only hooks have a trigger')] : []),
    ];
  if (!trigger) return [problem('inputs.trigger', 'required', 'is needed: {schema, op, when}')];
  if (matters.has(trigger.op))
    return trigger.schema === undefined
      ? []
      : [problem('inputs.trigger.schema', 'kind', `${trigger.op} is not about records`)];
  const known = [...operations, ...matters.keys()].join(', ');
  return [
    ...(isOperation(trigger.op)
      ? []
      : [problem('inputs.trigger.op', 'enum', `must be one of ${known}`)]),
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
  const isOn = one.damage?.enabled ?? one.enabled;
  if (!isOn || one.functionType !== 'hook' || trigger?.when !== 'before') return undefined;
  const matter = matters.get(trigger.op);
  if (matter) return hooks.register<object>(matter.point, one.name, askAbout(parts, one, matter));
  if (trigger.schema === undefined || !isOperation(trigger.op)) return undefined;
  const point = recordHookPoint(trigger.schema, trigger.op);
  return hooks.register<RecordHookValue>(point, one.name, askFunction(parts, one));
}

/** What a function answers, where that is an object. */
async function answerOf(
  { runner }: TriggerParts,
  { _id, name, damage }: StoredFunction,
  { value, caller, deadlineAt }: HookCall<object>,
): Promise<Answer | undefined> {
  // What it would have said is not known: nothing is let through in its place.
  if (damage) throw new Error(`The hook ${name} cannot be read: ${damage.problem}`);
  try {
    const { result } = await runner.run({
      ...{ functionId: _id, req: { ...value }, caller, trigger: 'hook' },
      deadlineMs: Math.max(1, deadlineAt - performance.now()),
    });
    return answerIn(result, name);
  } catch (error) {
    throw refusalOf(error, name);
  }
}

/** Nothing is let through that may have been meant as a refusal (`return false`), or as an input. */
function answerIn(result: unknown, name: string): Answer | undefined {
  if (result === undefined || result === null) return undefined;
  if (typeof result === 'object' && !Array.isArray(result)) return result as Answer;
  const what = Array.isArray(result) ? 'a list' : shortened(JSON.stringify(result), 64);
  throw new Error(
    `The hook ${name} answers ${what}: it refuses by ctx.reject or a throw, and answers an object or nothing`,
  );
}

/** What the function answers takes the place of the input; nothing leaves it. */
const askFunction =
  (parts: TriggerParts, one: StoredFunction): HookHandler<RecordHookValue> =>
  async (call) => {
    const input = await answerOf(parts, one, call);
    if (!input) return undefined;
    requireFields(parts, one.name, call.value, input);
    return { ...call.value, input: input as RecordHookValue['input'] };
  };

const automatic: ReadonlySet<string> = new Set(['_id', 'createdAt', 'updatedAt', '__v']);

/** An answer takes the place of the input: one that means something else (`{ok: true}`) would lose what was sent. */
function requireFields(
  { schemas }: TriggerParts,
  name: string,
  { schema, operation, input = {} }: RecordHookValue,
  answer: Answer,
): void {
  const fields = schemas.get(schema)?.tree.fields;
  if (operation === 'delete' || !fields) return;
  const isKnown = (key: string): boolean =>
    fields.has(key) || Object.hasOwn(input, key) || automatic.has(key) || key.startsWith('$');
  const stray = Object.keys(answer).find((key) => !isKnown(key));
  if (stray !== undefined)
    throw new Error(
      `The hook ${name} answers ${shortened(stray, 64)}, which ${schema} does not have: it answers the input, or nothing`,
    );
}

/** Why a hook before or after records is not asked. */
export function hookProblem(
  { schemas }: Pick<TriggerParts, 'schemas'>,
  { functionType, inputs }: StoredFunction,
): string | undefined {
  const schema = functionType === 'hook' ? inputs.trigger?.schema : undefined;
  if (schema === undefined || schemas.get(schema)) return undefined;
  return `There is no schema ${schema}: it is asked as soon as there is one`;
}

/**
 * What it answers about something that is no record: only what may be changed there. Whoever signs up, or sends, has not
 * called the code, and may be an operator or the platform: it acts in nobody's name.
 */
const askAbout =
  (parts: TriggerParts, one: StoredFunction, { changes, take }: Matter): HookHandler<object> =>
  async (call) => {
    const answer = await answerOf(parts, one, { ...call, caller: ownCaller(one) });
    if (!answer) return undefined;
    const stray = Object.keys(answer).find((key) => !changes.includes(key));
    if (stray !== undefined)
      throw new Error(`The hook ${one.name} answers ${stray}; it may answer ${changes.join(', ')}`);
    return take(call.value as never, answer);
  };

/** A refusal has the message of the code: it is for whoever asked. That its process died is no refusal. */
function refusalOf(error: unknown, name: string): unknown {
  if (!(error instanceof PenstockError) || error.code !== functionErrors.FUNCTION_FAILED.code)
    return error;
  const user = userErrorOf(error)?.user;
  return user?.code === 'CRASHED' ? error : new Error(user?.message ?? `The hook ${name} failed`);
}
