import { describe, expect, it } from 'vitest';
import { formatObject, formatSubject, parseObject, parseSubject } from './grammar.ts';

describe('references', () => {
  it.each([
    'User:a',
    'Doc_2:0198f000-0000-7000-8000-000000000001',
    'Type:openfga/openfga',
    'T:été',
  ])('%s is an object', (text) => {
    expect(formatObject(parseObject(text, 'resource'))).toBe(text);
  });

  it.each(['User:a', 'User:*', 'Team:t#member'])('%s is a subject', (text) => {
    expect(formatSubject(parseSubject(text, 'subject'))).toBe(text);
  });

  it('an id of a record is the same in either case; other ids are what they are', () => {
    const id = '0198f000-abcd-7000-8000-00000000000f';
    expect(parseObject(`Doc:${id.toUpperCase()}`, 'resource').id).toBe(id);
    expect(parseSubject(`User:${id.toUpperCase()}#member`, 'subject').id).toBe(id);
    expect(parseObject('Doc:ABC', 'resource').id).toBe('ABC');
  });

  it.each([
    '',
    'User',
    'User:',
    ':a',
    '*:a',
    'Doc:1:2',
    'Doc:1@x',
    'Doc:1,2',
    'Doc: 1',
    'Doc:a\u0000b',
    'Doc:a\u202Eb',
    'Doc:\uD800',
    '1Doc:a',
    'Do-c:a',
    '__proto__:a',
    `Doc:${'x'.repeat(1025)}`,
    `${'D'.repeat(65)}:a`,
  ])('%j is neither', (text) => {
    expect(() => parseObject(text, 'resource')).toThrow(/^resource: /);
    expect(() => parseSubject(text, 'subject')).toThrow(/^subject: /);
  });

  it.each(['User:a#', 'User:a#1', 'User:a#b#c', 'User:*#member', 'User:#member'])(
    '%j is no subject',
    (text) => {
      expect(() => parseSubject(text, 'subject')).toThrow(/^subject: /);
    },
  );

  it.each(['User:*', 'Team:t#member'])('%j is no object', (text) => {
    expect(() => parseObject(text, 'resource')).toThrow(/^resource: /);
  });
});
