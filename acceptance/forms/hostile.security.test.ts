/** Whatever strangers send to a form is 200 or a typed 4xx that names the field (CWE-20), and what is stored is what the form allows. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { createForm, sendUrlEncoded, submissionsOf } from './requests.ts';

let platform: TestPlatform;
let form: Json;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const limits = { submissionsPerFormPerIpPerHour: 100_000 };
  await platform.admin.patch('/config/forms', { config: { limits } });
  form = await createForm(platform.admin, {
    fields: [
      ...types.map((type) => ({ name: type, type })),
      { name: 'select', type: 'select', options: ['a'] },
    ],
    emailField: 'email',
  });
});
afterAll(() => platform.close());

const types = ['text', 'textarea', 'email', 'number', 'date', 'checkbox', 'url', 'phone', 'file'];
const name = fc.oneof(
  fc.constantFrom(...types, 'select', '_challenge', '_solution', 'captchaToken', 'website_url'),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', '', '\0'),
);
const value = fc.oneof(
  fc.jsonValue(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    'data:text/plain;base64,eA==',
    'data:,x',
    'data:;base64,',
    -0,
    1e308,
    '1e999',
    '0',
    '2026-02-30',
  ),
);
const acceptable = (status: number): boolean => status === 200 || (status >= 400 && status < 500);

it('as JSON', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(name, value), { maxLength: 12 }), async (entries) => {
      const members = entries.map(
        ([key, one]) => `${JSON.stringify(key)}:${JSON.stringify(one) ?? null}`,
      );
      const answer = await platform.client.post(`/forms/submit/${form._id}`, `{${members.join()}}`);
      expect(acceptable(answer.status), `${answer.status} ${answer.text}`).toBe(true);
    }),
    { numRuns: 300 },
  );
  const allowed = new Set([...types, 'select']);
  const stored = await submissionsOf(platform.admin, form._id, { limit: 200 });
  expect(stored.length).toBeGreaterThan(10);
  for (const { data } of stored)
    expect(Object.keys(data).filter((key) => !allowed.has(key))).toEqual([]);
  expect((await platform.admin.get(`/admin/forms/${form._id}/submissions/export`)).status).toBe(
    200,
  );
});

/** What a part says of itself, of which half is what browsers say. */
const usual = (key: string, fileName: string): string =>
  `Content-Disposition: form-data${key}${fileName}`;
const heads: readonly ((key: string, fileName: string) => string)[] = [
  ...[usual, usual, usual, usual],
  (_key, fileName) => `Content-Disposition: form-data${fileName}`,
  (key) => `Content-Disposition: attachment${key}`,
  (key, fileName) => `${usual(key, fileName)}\r\nContent-Type: ;;=\r\nContent-Transfer-Encoding: x`,
  () => 'A: b',
];

it('as forms, whole or torn', async () => {
  const boundary = 'x';
  const part = fc
    .tuple(name, fc.option(fc.string()), fc.string({ unit: 'binary' }), fc.constantFrom(...heads))
    .map(([key, file, content, head]) => {
      const fileName = file === null ? '' : `; filename="${file}"`;
      return `--${boundary}\r\n${head(`; name="${key}"`, fileName)}\r\n\r\n${content}\r\n`;
    });
  const body = fc
    .tuple(fc.array(part, { maxLength: 6 }), fc.boolean(), fc.nat(400))
    .map(([parts, isTorn, at]) => {
      const whole = `${parts.join('')}--${boundary}--\r\n`;
      return isTorn ? whole.slice(0, at) : whole;
    });
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(body, fc.string({ unit: 'binary' })),
      fc.boolean(),
      async (text, isMultipart) => {
        const type = isMultipart
          ? `multipart/form-data; boundary=${boundary}`
          : 'application/x-www-form-urlencoded';
        const answer = await sendUrlEncoded(platform, `/forms/submit/${form._id}`, text, {
          'content-type': type,
        });
        expect(acceptable(answer.status), `${answer.status} ${answer.text}`).toBe(true);
      },
    ),
    { numRuns: 300 },
  );
});

it('as definitions', async () => {
  const field = fc.record(
    {
      name,
      type: fc.oneof(fc.constantFrom(...types, 'String', 'File'), fc.string()),
      required: value,
      pattern: fc.string(),
      min: value,
      max: value,
      minLength: value,
      options: fc.oneof(fc.array(fc.string()), value),
      default: value,
      mimeTypes: fc.oneof(fc.array(fc.string()), value),
    },
    { requiredKeys: ['name', 'type'] },
  );
  const definition = fc.record(
    {
      name: fc.string({ unit: 'binary' }),
      fields: fc.oneof(fc.array(field, { maxLength: 4 }), value),
      forwardTo: value,
      emailField: value,
      autoReply: value,
      redirectUrl: value,
      closesAt: value,
      maxSubmissions: value,
    },
    { requiredKeys: ['name', 'fields'] },
  );
  await fc.assert(
    fc.asyncProperty(definition, async (given) => {
      const answer = await platform.admin.post('/admin/forms', given);
      const isTyped = answer.status === 200 || typeof answer.body?.code === 'string';
      expect(acceptable(answer.status) && isTyped, `${answer.status} ${answer.text}`).toBe(true);
    }),
    { numRuns: 200 },
  );
});
