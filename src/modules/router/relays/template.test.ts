import { describe, expect, it } from 'vitest';
import {
  factsOf,
  MESSAGE_BYTES,
  renderMessage,
  resourcesOf,
  templateProblems,
} from './template.ts';

const event = {
  ...{ topic: 'chat:create:message', occurredAt: '2026-01-01T00:00:00.000Z', ids: ['a', 'b'] },
  payload: { room: 'r1', count: 3, deep: { list: ['x', 'y'] }, '{{id}}': 'no' },
};
const facts = factsOf(event);
const rendered = (template: unknown, id?: string): unknown =>
  JSON.parse(renderMessage(template, facts, id) ?? '"too large"');

describe('messages of relays', () => {
  it('puts what the event says into its places, as it is where a place is a whole text', () => {
    const template = {
      ...{ text: 'In {{payload.room}}: {{payload.count}}', count: '{{payload.count}}', on: true },
      ...{ list: ['{{payload.deep.list}}', '{{payload.deep.list.1}}'], id: '{{id}}' },
      none: '{{payload.nothing}}',
    };
    expect(rendered(template)).toEqual({
      ...{ text: 'In r1: 3', count: 3, on: true, list: [['x', 'y'], 'y'], id: 'a', none: null },
    });
    expect(rendered({ id: '{{id}}' }, 'b')).toEqual({ id: 'b' });
  });

  it('tells without a template which event it was, and nothing that it carries', () => {
    expect(rendered(null)).toEqual({ topic: event.topic, occurredAt: event.occurredAt, id: 'a' });
  });

  it('fills nothing that an event brings, and finds nothing that every object has', () => {
    const given = factsOf({ ...event, payload: { room: '{{payload.secret}}', secret: 's' } });
    expect(renderMessage(['{{payload.room}}'], given)).toBe('["{{payload.secret}}"]');
    for (const name of ['constructor', '__proto__', 'payload.toString', 'ids.length.constructor'])
      expect(renderMessage([`{{${name}}}`], given)).toBe('[null]');
  });

  it('makes no message that is too large, however often a place is named', () => {
    const large = factsOf({ ...event, payload: { text: 'x'.repeat(MESSAGE_BYTES / 2) } });
    expect(renderMessage(['{{payload.text}}'], large)).toBeDefined();
    const often = Array.from({ length: 900 }, () => '{{payload.text}}');
    expect(renderMessage(often, large)).toBeUndefined();
    expect(renderMessage([often.join('')], large)).toBeUndefined();
  });

  it('finds the resources of an event', () => {
    expect(resourcesOf(facts, null)).toEqual(['a', 'b']);
    expect(resourcesOf(facts, 'payload.room')).toEqual(['r1']);
    expect(resourcesOf(facts, 'payload.deep.list')).toEqual(['x', 'y']);
    expect(resourcesOf(facts, 'payload.deep')).toEqual([]);
  });

  it('refuses templates that are too large, too deep, or name no path', () => {
    const deep = (levels: number): unknown => (levels === 0 ? 'x' : [deep(levels - 1)]);
    const rules = (template: unknown) => templateProblems(template).map(({ rule }) => rule);
    expect(rules(deep(10))).toEqual([]);
    expect(rules(deep(11))).toEqual(['depth']);
    expect(rules(['x'.repeat(16 * 1_024)])).toEqual(['maxLength']);
    expect(rules('{{id}}')).toEqual(['type']);
    expect(rules(['{{payload..room}}'])).toEqual(['format']);
    expect(rules(null)).toEqual([]);
  });
});
