import { expect, test } from 'vitest';
import { parseTemplate, TemplateError } from './template-language.ts';

const html = (text: string, variables: object = {}) =>
  parseTemplate(text).render(variables as never, 'html');

test.each([
  ['Hello {{name}}!', { name: 'Ada' }, 'Hello Ada!'],
  [
    '{{ user.name }} {{user.address.city}}',
    { user: { name: 'Ada', address: { city: 'London' } } },
    'Ada London',
  ],
  ['{{missing}}{{user.missing.deeper}}', { user: {} }, ''],
  ['{{n}} {{flag}} {{list}}', { n: 0, flag: false, list: [1] }, '0 false [1]'],
  ['{{#if a}}A{{else}}B{{/if}}', { a: 'x' }, 'A'],
  ['{{#if a}}A{{else}}B{{/if}}', { a: '' }, 'B'],
  ['{{#if a}}{{#unless b}}only a{{/unless}}{{/if}}', { a: 1 }, 'only a'],
  ['{{#unless list}}none{{/unless}}', { list: [] }, 'none'],
  ['a{{! a remark }}b', {}, 'ab'],
  ['{ {x} } {single}', {}, '{ {x} } {single}'],
])('%s', (text, variables, expected) => expect(html(text, variables)).toBe(expected));

test.each([
  ['{{#each list}}{{this}},{{/each}}', { list: ['a', '<b>'] }, 'a,&lt;b&gt;,'],
  [
    '{{#each list}}{{@index}}{{name}}{{#if @last}}.{{else}};{{/if}}{{/each}}',
    { list: [{ name: 'a' }, { name: 'b' }] },
    '0a;1b.',
  ],
  ['{{#each prices}}{{@key}}={{this}} {{/each}}', { prices: { tea: 2, milk: 1 } }, 'tea=2 milk=1 '],
  ['{{#each list}}x{{else}}nothing{{/each}}', { list: [] }, 'nothing'],
  ['{{#each list}}{{../shop}}:{{this}} {{/each}}', { shop: 'S', list: [1, 2] }, 'S:1 S:2 '],
  [
    '{{#each rows}}{{#each cells}}{{../../sep}}{{this}}{{/each}}|{{/each}}',
    { sep: '-', rows: [{ cells: [1, 2] }, { cells: [3] }] },
    '-1-2|-3|',
  ],
  [
    '{{#with user}}{{name}} of {{../shop}}{{/with}}',
    { user: { name: 'Ada' }, shop: 'S' },
    'Ada of S',
  ],
  ['{{#with user}}x{{else}}nobody{{/with}}', {}, 'nobody'],
  ['{{#if a}}A{{else if b}}B{{else}}C{{/if}}', { b: 1 }, 'B'],
  ['{{#if a}}A{{else if b}}B{{else}}C{{/if}}', {}, 'C'],
  ['{{#each list}}{{this.constructor}}{{constructor}}{{/each}}', { list: ['a'] }, ''],
  ['{{#each text}}x{{/each}}', { text: 'abc' }, ''],
])('%s', (text, variables, expected) => expect(html(text, variables)).toBe(expected));

test('names of variables are those outside of loops', () => {
  expect(
    parseTemplate(
      '{{#each items}}{{name}}{{../shop}}{{@index}}{{/each}}{{#if a}}{{b}}{{else if c}}{{d}}{{/if}}',
    ).variables,
  ).toEqual(['items', 'shop', 'a', 'b', 'c', 'd']);
});

test('a template that would grow without end is refused (CWE-776, https://cwe.mitre.org/data/definitions/776.html)', () => {
  const list = Array.from({ length: 200 }, () => 'x');
  const nested = '{{#each list}}{{#each ../list}}{{#each ../../list}}x{{/each}}{{/each}}{{/each}}';
  expect(() => html(nested, { list })).toThrow(/rounds/);
  expect(() =>
    html('{{#each list}}{{../text}}{{/each}}', { list, text: 'x'.repeat(10_000) }),
  ).toThrow(/too long/);
});

test('values are escaped in HTML, and only there', () => {
  const template = parseTemplate('{{x}} {{{x}}} {{&x}}');
  const x = `<a href="javascript:x" onclick='y'>&\`=`;
  expect(template.render({ x }, 'html')).toBe(
    `&lt;a href&#x3D;&quot;javascript:x&quot; onclick&#x3D;&#x27;y&#x27;&gt;&amp;&#x60;&#x3D; ${x} ${x}`,
  );
  expect(template.render({ x }, 'plain')).toBe(`${x} ${x} ${x}`);
});

test('a value is never read as a template', () => {
  expect(html('{{a}}', { a: '{{b}}', b: 'secret' })).toBe('{{b}}');
});

test.each([
  'constructor',
  '__proto__',
  'toString',
  'a.constructor.name',
  'a.__proto__.polluted',
  'list.length.constructor',
])('%s leads nowhere', (path) => expect(html(`{{${path}}}`, { a: {}, list: [] })).toBe(''));

test('knows its variables, in order and once each', () => {
  expect(
    parseTemplate('{{b}} {{#if a.x}}{{b}}{{c.d}}{{else}}{{e}}{{/if}}{{{f}}}').variables,
  ).toEqual(['b', 'a', 'c', 'e', 'f']);
});

test.each([
  '{{#each x}}',
  '{{#each x}}{{/with}}',
  '{{#repeat x}}{{/repeat}}',
  '{{#if a}}{{else if b}}',
  '{{else if b}}',
  '{{../../../../../../a}}',
  '{{@root}}',
  '{{#if x}}',
  '{{/if}}',
  '{{#if x}}{{/unless}}',
  '{{else}}',
  '{{> partial}}',
  '{{a b}}',
  '{{}}',
  '{{#if}}{{/if}}',
])('%s is refused', (text) => expect(() => parseTemplate(text)).toThrow(TemplateError));

test('hostile templates are judged quickly', () => {
  expect(html('{{'.repeat(100_000))).toHaveLength(200_000);
  expect(() => parseTemplate('{{#if a}}'.repeat(10_000))).toThrow(/deeper/);
});
