/** What of an event a relay passes on: a template of JSON whose texts name fields of the event. */

import type { Problem } from '../../../kernel/errors.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';

const TEMPLATE_BYTES = 16 * 1_024;
export const MESSAGE_BYTES = 64 * 1_024;
const DEPTH = 10;
/** Resources that one event is told of. */
const MAX_RESOURCES = 1_000;

/** A path into an event: names and positions between dots. */
export const pathForm = /^[A-Za-z_][A-Za-z0-9_]{0,63}(\.[A-Za-z0-9_]{1,64}){0,9}$/;
const placeholder = /\{\{([A-Za-z0-9_.]{1,640})\}\}/g;
const onlyPlaceholder = /^\{\{([A-Za-z0-9_.]{1,640})\}\}$/;

/** What a template can name of an event. */
export type EventFacts = Readonly<Record<string, unknown>>;

export function factsOf(event: Partial<PublishedEvent>): EventFacts {
  const { topic, occurredAt, schema, operation, ids = [], payload = {} } = event;
  return { topic, occurredAt, schema, operation, ids, id: ids[0], payload };
}

function valueAt(facts: EventFacts, path: string): unknown {
  let value: unknown = facts;
  for (const name of path.split('.'))
    value =
      typeof value === 'object' && value !== null && Object.hasOwn(value, name)
        ? (value as Record<string, unknown>)[name]
        : undefined;
  return value;
}

/** Ids of the resources that an event is about. */
export function resourcesOf(facts: EventFacts, path: string | null): readonly string[] {
  const found = path === null ? facts.ids : valueAt(facts, path);
  const list: readonly unknown[] = Array.isArray(found) ? found : [found];
  return list
    .filter((one) => typeof one === 'string' || typeof one === 'number')
    .map(String)
    .slice(0, MAX_RESOURCES);
}

/** What subscribers are sent without a template: which event, and what about; nothing that it carries. */
const usual = { topic: '{{topic}}', occurredAt: '{{occurredAt}}', id: '{{id}}' };

/** The message as JSON; nothing where it is larger than messages may be. `id`: of the resource that it is about. */
export function renderMessage(
  template: unknown,
  facts: EventFacts,
  id?: string,
): string | undefined {
  const named = id === undefined ? facts : { ...facts, id };
  // Each placeholder may stand for a large value: what is made is bounded while it is made.
  const budget = { left: MESSAGE_BYTES };
  const message = filled(template ?? usual, named, budget);
  if (budget.left < 0) return undefined;
  const text = JSON.stringify(message) ?? 'null';
  return Buffer.byteLength(text) > MESSAGE_BYTES ? undefined : text;
}

function filled(template: unknown, facts: EventFacts, budget: { left: number }): unknown {
  if (budget.left < 0) return null;
  if (typeof template === 'string') return filledText(template, facts, budget);
  if (typeof template !== 'object' || template === null) return template;
  if (Array.isArray(template)) return template.map((one) => filled(one, facts, budget));
  return Object.fromEntries(
    Object.entries(template).map(([name, one]) => [name, filled(one, facts, budget)]),
  );
}

function filledText(text: string, facts: EventFacts, budget: { left: number }): unknown {
  const [, whole] = onlyPlaceholder.exec(text) ?? [];
  if (whole !== undefined) {
    const value = valueAt(facts, whole) ?? null;
    budget.left -= JSON.stringify(value).length;
    return value;
  }
  return text.replace(placeholder, (_all, path: string) => {
    if (budget.left < 0) return '';
    const value = valueAt(facts, path) ?? '';
    const part = typeof value === 'string' ? value : JSON.stringify(value);
    budget.left -= part.length;
    return part;
  });
}

const depthOf = (value: unknown): number =>
  typeof value === 'object' && value !== null
    ? 1 + Math.max(0, ...Object.values(value).slice(0, 10_000).map(depthOf))
    : 0;

/** What is wrong with a template. */
export function templateProblems(template: unknown): readonly Problem[] {
  if (template === null) return [];
  const problem = (rule: string, message: string): readonly Problem[] => [
    { path: 'messageTemplate', rule, message },
  ];
  if (typeof template !== 'object') return problem('type', 'must be an object or a list');
  const text = JSON.stringify(template);
  if (Buffer.byteLength(text) > TEMPLATE_BYTES)
    return problem('maxLength', `is larger than ${TEMPLATE_BYTES} bytes`);
  if (depthOf(template) > DEPTH) return problem('depth', `has more than ${DEPTH} levels`);
  const wrong = [...text.matchAll(placeholder)].find(([, path = '']) => !pathForm.test(path));
  return wrong ? problem('format', `${wrong[0]} is no path into an event`) : [];
}
