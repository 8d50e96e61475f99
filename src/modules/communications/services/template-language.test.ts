import { expect, test, vi } from 'vitest';
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
  '{{> @other}}',
  "{{> (lookup . 'x')}}",
  '{{#*inline "x"}}{{/inline}}',
  '{{{{raw}}}}',
  '{{not closed',
  '{{a b}}',
  '{{}}',
  '{{#if}}{{/if}}',
])('%s is refused', (text) => expect(() => parseTemplate(text)).toThrow(TemplateError));

test('hostile templates are judged quickly', () => {
  expect(() => parseTemplate('{{'.repeat(100_000))).toThrow(TemplateError);
  expect(() => parseTemplate('{{a}}'.repeat(40_000))).toThrow(/tags/);
  expect(() => parseTemplate(`{{a${'.a'.repeat(90_000)}}}`)).toThrow(/longer/);
  expect(() => parseTemplate('{{#if a}}'.repeat(10_000))).toThrow(/deeper/);
  expect(() => parseTemplate('{{~#if a}}'.repeat(1_000))).toThrow(/deeper/);
  expect(() => parseTemplate('{{^a}}'.repeat(1_000))).toThrow(/deeper/);
  expect(() => parseTemplate('{{#> a}}'.repeat(1_000))).toThrow(/deeper/);
  expect(() => parseTemplate(`{{#if a}}${'{{else if b}}'.repeat(1_000)}{{/if}}`)).toThrow(
    /branches/,
  );
  expect(() => parseTemplate(`{{a ${'('.repeat(10_000)}}}`)).toThrow(TemplateError);
});

const withPartials = (text: string, partials: Readonly<Record<string, string>>, variables = {}) =>
  parseTemplate(text).render(
    variables,
    'html',
    new Map(Object.entries(partials).map(([name, part]) => [name, parseTemplate(part).nodes])),
  );

test.each([
  ['{{> hi}}!', { hi: 'Hi {{name}}' }, 'Hi &lt;Ada&gt;!'],
  ['{{> hi greeting="Hello"}}', { hi: '{{greeting}} {{name}}' }, 'Hello &lt;Ada&gt;'],
  ['{{> city user}}', { city: '{{city}}{{name}}' }, 'London'],
  [
    '{{#> page title="T"}}by {{name}}{{/page}}',
    { page: '<h1>{{title}}</h1>{{> @partial-block}}<hr>' },
    '<h1>T</h1>by &lt;Ada&gt;<hr>',
  ],
  ['{{#> nowhere}}instead{{/nowhere}}', {}, 'instead'],
  ['{{> outer}}', { outer: '[{{> inner}}]', inner: '{{name}}' }, '[&lt;Ada&gt;]'],
  ['{{#each list as |entry at|}}{{at}}{{entry}}{{name}};{{/each}}', {}, '0a;1b;'],
  ["{{lookup user 'city'}}{{lookup list 1}}", {}, 'Londonb'],
  ['a {{~name~}} b', {}, 'a&lt;Ada&gt;b'],
])('partials and layouts: %s', (text, partials, expected) =>
  expect(
    withPartials(text, partials, { name: '<Ada>', user: { city: 'London' }, list: ['a', 'b'] }),
  ).toBe(expected),
);

test('a partial that is not there, or that holds itself, is an error', () => {
  expect(() => withPartials('{{> gone}}', {})).toThrow(/gone/);
  expect(() => withPartials('{{> a}}', { a: 'x{{> b}}', b: '{{> a}}' })).toThrow(/deeper/);
  expect(() => withPartials('{{> a}}', { a: '{{> a}}{{> a}}{{> a}}' })).toThrow(/deeper/);
});

test('empty loops within loops cost no time without end', () => {
  const list = Array.from({ length: 90 }, () => '');
  expect(() =>
    html(`{{#each list}}{{#each ../list}}${'{{x}}'.repeat(100)}{{/each}}{{/each}}`, { list }),
  ).toThrow(/steps/);
});

test.each([
  'javascript:alert(1)',
  ' java\nscript:alert(1)',
  'JavaScript:x',
  'data:text/html,x',
  'vbscript:x',
])(
  '%s does not become an address (CWE-79, https://cwe.mitre.org/data/definitions/79.html)',
  (x) => {
    expect(html('<a href="{{x}}">', { x })).toBe('<a href="#">');
    expect(html('<a href={{#if x}}{{x}}{{/if}}>', { x })).toBe('<a href=#>');
    expect(html('<p>{{x}}</p>', { x: 'javascript: is a word' })).toContain('javascript: is');
    expect(html('<a href="{{x}}">', { x: 'app://reset' })).toBe('<a href="app://reset">');
  },
);

test('a value that is longer than the text may become is refused before it is escaped', () => {
  const replaced = vi.spyOn(String.prototype, 'replace');
  try {
    expect(() => html('<p>{{v}}</p>', { v: '<&'.repeat(600_000) })).toThrow('too long');
    const long = replaced.mock.contexts.filter((text) => String(text).length > 1_000_000);
    expect(long).toEqual([]);
  } finally {
    replaced.mockRestore();
  }
});

test('entries of a list that is longer than loops may be are not looked at', () => {
  let looks = 0;
  const list = new Proxy(Array(20_000).fill('x'), {
    get(target, key) {
      if (typeof key === 'string' && /^[0-9]+$/.test(key)) looks += 1;
      return Reflect.get(target, key);
    },
  });
  expect(() => html('{{#each list}}{{this}}{{/each}}', { list })).toThrow('rounds');
  expect(looks).toBe(0);
});
