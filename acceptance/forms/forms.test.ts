/** Forms from their creation to the last submission, as the interface (4.8) and specification forms.md section 9 have it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { createForm, sendMultipart, sendUrlEncoded, submissionsOf } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  await liftLimits(platform.admin);
  const config = { limits: { submissionsPerFormPerIpPerHour: 1_000 } };
  await platform.admin.patch('/config/forms', { config });
});
afterAll(() => platform.close());

const submit = (formId: string, values: unknown, options = {}) =>
  platform.client.post(`/forms/submit/${formId}`, values, options);

it('goes from the example of the interface to a submission and its end', async () => {
  const { admin } = platform;
  const created = await admin.post('/admin/forms', {
    name: 'Contact Form',
    fields: [
      { name: 'email', type: 'email', required: true },
      { name: 'message', type: 'textarea', required: true },
    ],
    enabled: true,
  });
  expect(created).toMatchObject({
    status: 200,
    body: {
      _id: expect.any(String),
      name: 'Contact Form',
      enabled: true,
      fields: [
        { name: 'email', type: 'email', required: true },
        { name: 'message', type: 'textarea', required: true },
      ],
    },
  });
  const { _id } = created.body;
  expect((await admin.get('/admin/forms')).body).toMatchObject({
    forms: [{ _id, name: 'Contact Form' }],
    count: 1,
  });
  expect((await admin.get('/admin/forms', { query: { search: 'TACT' } })).body.count).toBe(1);
  expect((await admin.get('/admin/forms', { query: { search: '%' } })).body.count).toBe(0);

  const sent = await submit(_id, { email: 'ada@example.com', message: 'Hello', extra: 'dropped' });
  expect(sent).toMatchObject({
    status: 200,
    body: { message: 'Form submitted successfully', submissionId: expect.any(String) },
  });
  const { submissionId } = sent.body;
  const list = await admin.get(`/admin/forms/${_id}/submissions`);
  expect(list.body).toMatchObject({
    submissions: [{ _id: submissionId, data: { email: 'ada@example.com', message: 'Hello' } }],
    count: 1,
  });
  expect(list.body.submissions[0].data).not.toHaveProperty('extra');
  expect(list.text).not.toContain('127.0.0.1');
  const one = await admin.get(`/admin/forms/submissions/${submissionId}`);
  expect(one.body).toMatchObject({ _id: submissionId, form: _id, possibleSpam: false });

  const changed = await admin.put(`/admin/forms/${_id}`, { enabled: false });
  expect(changed).toMatchObject({ status: 200, body: { enabled: false, name: 'Contact Form' } });
  expect((await submit(_id, { email: 'a@b.c', message: 'x' })).body.code).toBe('FORM_NOT_FOUND');

  const gone = await admin.delete(`/admin/forms/submissions/${submissionId}`);
  expect(gone).toMatchObject({ status: 200, body: { deleted: true } });
  expect((await admin.get(`/admin/forms/submissions/${submissionId}`)).status).toBe(404);
  expect((await admin.delete(`/admin/forms/${_id}`)).body).toMatchObject({ deleted: true });
  expect((await admin.get(`/admin/forms/${_id}`)).status).toBe(404);
  expect((await admin.delete(`/admin/forms/${_id}`)).status).toBe(404);
});

it('is for the master key alone on the admin surface, and for everybody on the other', async () => {
  const { adminAnonymous, client } = platform;
  for (const path of ['/admin/forms', '/forms/forms'])
    expect((await adminAnonymous.get(path)).status).toBe(401);
  expect(
    (await client.get('/admin/forms', { headers: { masterkey: platform.masterKey } })).status,
  ).toBe(404);
});

describe('a field takes what its type says', () => {
  const cases: readonly [field: object, good: readonly unknown[], bad: readonly unknown[]][] = [
    [{ type: 'text', minLength: 2, maxLength: 4 }, ['ab', 'abcd'], ['a', 'abcde', 5, {}, ['ab']]],
    [{ type: 'String', pattern: '^[a-z]+$' }, ['abc'], ['ABC', 'a1']],
    [{ type: 'textarea' }, ['two\nlines'], [true, ['x']]],
    [
      { type: 'email' },
      ['ada@example.com', "o'hara+x@mail.example.co"],
      ['ada', 'a@b@c', 'a b@c.de', 'a@b.c\r\nBcc: d@e.f', 'a@b, c@d', `${'a'.repeat(250)}@b.cd`],
    ],
    [
      { type: 'number', min: 1, max: 10 },
      [1, 10, '2.5', '1e1'],
      [0, 11, 'x', '', 'Infinity', '0x2', {}],
    ],
    [{ type: 'Number', integer: true }, [3, '4'], [3.5, '4.5']],
    [
      { type: 'date', min: '2026-01-01' },
      ['2026-02-28', '2026-03-01T10:00', '2026-03-01T10:00:00.5Z', '2028-02-29'],
      ['2026-02-30', '2025-12-31', '01.02.2026', '2026-13-01', 5, '2026-03-01T25:00'],
    ],
    [{ type: 'select', options: ['a', 'b'] }, ['a'], ['c', ['a', 'b'], 'A']],
    [{ type: 'select', options: ['a', 'b'], multiple: true }, ['a', ['a', 'b']], [['a', 'c'], 'c']],
    [{ type: 'checkbox' }, [true, 'on', 'true', '1', 1], ['yes', 2, false, 'off']],
    [
      { type: 'url' },
      ['https://example.com/x?y'],
      ['javascript:alert(1)', 'example.com', 'ftp://a.b'],
    ],
    [
      { type: 'phone' },
      ['+30 690 000-0000', '(0123) 45678'],
      ['call me', '+', '12', '1'.repeat(40)],
    ],
  ];

  it.each(cases)('%j', async (field, good, bad) => {
    const form = await createForm(platform.admin, {
      fields: [{ name: 'value', required: true, ...field }],
    });
    for (const value of good) {
      const answer = await submit(form._id, { value });
      expect(answer.status, `${JSON.stringify(value)} ${answer.text}`).toBe(200);
    }
    for (const value of [...bad, undefined, null, '', []]) {
      const answer = await submit(form._id, { value });
      expect(answer, JSON.stringify(value)).toMatchObject({
        status: 400,
        body: {
          code: 'SUBMISSION_INVALID',
          errors: [
            {
              field: 'value',
              path: 'value',
              code: expect.any(String),
              message: expect.any(String),
            },
          ],
        },
      });
    }
    expect(await submissionsOf(platform.admin, form._id)).toHaveLength(good.length);
  });

  it('and tells everything that is wrong at once', async () => {
    const form = await createForm(platform.admin);
    const { body } = await submit(form._id, { email: 'no', other: 1 });
    expect(
      body.errors.map(({ field, code }: { field: string; code: string }) => [field, code]),
    ).toEqual([
      ['email', 'email'],
      ['message', 'required'],
    ]);
  });

  it('and has its default where nothing is filled in', async () => {
    const form = await createForm(platform.admin, {
      fields: [
        { name: 'colour', type: 'select', options: ['red', 'blue'], default: 'blue' },
        { name: 'amount', type: 'number', default: 3 },
        { name: 'news', type: 'checkbox' },
        { name: 'note', type: 'text' },
      ],
    });
    await submit(form._id, { colour: '' });
    const [{ data }] = (await submissionsOf(platform.admin, form._id)) as [{ data: object }];
    expect(data).toEqual({ colour: 'blue', amount: 3, news: false });
  });

  it.each([
    ['{"__proto__":{"admin":true},"email":"a@b.cd","message":"x"}'],
    ['{"constructor":{"prototype":{"admin":true}},"email":"a@b.cd","message":"x"}'],
    ['{"email":"a@b.cd","message":"a\\u0000b"}'],
    ['[1]'],
    ['"text"'],
  ])('%s is refused', async (body) => {
    const form = await createForm(platform.admin);
    expect((await submit(form._id, body)).status).toBe(400);
    expect(await submissionsOf(platform.admin, form._id)).toEqual([]);
  });
});

describe('a definition', () => {
  const field = { name: 'a', type: 'text' };
  it.each<[settings: object, path: string]>([
    [{ fields: [] }, 'fields'],
    [{ fields: {} }, 'fields'],
    [{ fields: [field, field] }, 'fields.1.name'],
    [{ fields: [{ name: 'a', type: 'colour' }] }, 'fields.0.type'],
    [{ fields: { a: 'Boolean' } }, 'fields.a.type'],
    [{ fields: [{ name: '1a', type: 'text' }] }, 'fields.0.name'],
    [{ fields: [{ name: 'constructor', type: 'text' }] }, 'fields.0.name'],
    [{ fields: [{ name: 'captchaToken', type: 'text' }] }, 'fields.0.name'],
    [{ fields: [{ name: 'website_url', type: 'text' }] }, 'fields.0.name'],
    [{ fields: [{ ...field, pattern: '(' }] }, 'fields.0.pattern'],
    [{ fields: [{ ...field, min: 1 }] }, 'fields.0.min'],
    [{ fields: [{ ...field, minLength: 3, maxLength: 2 }] }, 'fields.0.maxLength'],
    [{ fields: [{ name: 'a', type: 'select' }] }, 'fields.0.options'],
    [{ fields: [{ name: 'a', type: 'select', options: ['x'], default: 'y' }] }, 'fields.0.default'],
    [{ fields: [{ name: 'a', type: 'date', min: 'soon' }] }, 'fields.0.min'],
    [{ fields: Array.from({ length: 51 }, (_, i) => ({ name: `a${i}`, type: 'text' })) }, 'fields'],
    [{ forwardTo: 'a@b.cd, nobody' }, 'forwardTo.1'],
    [{ forwardTo: ['a@b.cd\r\nBcc: e@f.gh'] }, 'forwardTo.0'],
    [{ emailField: 'nothing' }, 'emailField'],
    [{ autoReply: true }, 'emailField'],
    [{ doubleOptIn: true }, 'emailField'],
    [{ redirectUrl: 'javascript:alert(1)' }, 'redirectUrl'],
    [{ name: 'submissions' }, 'name'],
    [{ closesAt: 'tomorrow' }, 'closesAt'],
  ])('%j is refused at %s', async (settings, path) => {
    const answer = await platform.admin.post('/admin/forms', {
      name: 'wrong',
      fields: [field],
      ...settings,
    });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.errors[0].path).toBe(path);
  });

  it('has types in any case, bounds for values, and is changed whole or not at all', async () => {
    const { admin } = platform;
    const fields = [
      { name: 'a', type: 'TextArea' },
      { name: 'b', type: 'EMAIL' },
    ];
    const form = await createForm(admin, { fields });
    expect(form.fields).toMatchObject([{ type: 'textarea' }, { type: 'email' }]);
    expect((await submit(form._id, { a: 'x'.repeat(10_000) })).status).toBe(200);
    expect(await submit(form._id, { a: 'x'.repeat(10_001) })).toMatchObject({
      status: 400,
      body: { errors: [{ field: 'a', code: 'maxLength' }] },
    });
    const path = `/admin/forms/${form._id}`;
    const wrong = { name: 'Another', fields: [{ name: 'a', type: 'colour' }] };
    expect(await admin.put(path, wrong)).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'fields.0.type' }] },
    });
    expect((await admin.get(path)).body).toEqual(form);
    const nothing = '/admin/forms/01890a5d-ac96-774b-bcce-b302099a8057';
    expect((await admin.put(nothing, { enabled: false })).status).toBe(404);
  });

  it('has a name of its own', async () => {
    const first = await createForm(platform.admin);
    const second = await createForm(platform.admin);
    const twin = { name: first.name, fields: [field] };
    for (const answer of [
      await platform.admin.post('/admin/forms', twin),
      await platform.admin.put(`/admin/forms/${second._id}`, { name: first.name }),
    ])
      expect(answer).toMatchObject({ status: 409, body: { code: 'FORM_EXISTS' } });
  });
});

describe('bodies of HTML forms', () => {
  it('are taken as they come from a page without a script', async () => {
    const form = await createForm(platform.admin, {
      fields: [
        { name: 'who', type: 'text', required: true },
        { name: 'likes', type: 'select', options: ['a', 'b', 'c'], multiple: true },
        { name: 'terms', type: 'checkbox', required: true },
      ],
      message: 'Thanks <3',
    });
    const page = await sendUrlEncoded(
      platform,
      `/forms/submit/${form._id}`,
      'who=%C3%A4da&likes=a&likes=c&terms=on',
      { accept: 'text/html,application/xhtml+xml' },
    );
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(page.text).toContain('Thanks &lt;3');
    const json = await sendMultipart(platform, `/forms/submit/${form._id}`, [
      ['who', 'Eva'],
      ['terms', 'true'],
    ]);
    expect(json.body).toMatchObject({ message: 'Thanks <3', submissionId: expect.any(String) });
    const all = await submissionsOf(platform.admin, form._id, { sort: 'createdAt' });
    expect(all.map(({ data }) => data)).toEqual([
      { who: 'äda', likes: ['a', 'c'], terms: true },
      { who: 'Eva', terms: true },
    ]);
    await platform.admin.put(`/admin/forms/${form._id}`, { redirectUrl: 'https://example.com/ok' });
    const moved = await sendUrlEncoded(platform, `/forms/submit/${form._id}`, 'who=Ada&terms=1', {
      accept: 'text/html',
    });
    expect([moved.status, moved.headers.get('location')]).toEqual([302, 'https://example.com/ok']);
  });

  it.each([
    ['multipart/form-data', 'x'],
    ['multipart/form-data; boundary=x', '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb'],
    ['application/x-www-form-urlencoded', 'who=%00'],
    ['application/x-www-form-urlencoded', '__proto__=x&who=a'],
    [
      'application/x-www-form-urlencoded',
      Array.from({ length: 1_001 }, (_, i) => `a${i}=1`).join('&'),
    ],
  ])('that are broken are 400: %s', async (type, body) => {
    const form = await createForm(platform.admin, { fields: [{ name: 'who', type: 'text' }] });
    const answer = await sendUrlEncoded(platform, `/forms/submit/${form._id}`, body, {
      'content-type': type,
    });
    expect(answer.status, answer.text).toBe(400);
    expect(await submissionsOf(platform.admin, form._id)).toEqual([]);
  });

  it('that are too large are 413, and other types 415', async () => {
    const form = await createForm(platform.admin, { fields: [{ name: 'who', type: 'text' }] });
    const path = `/forms/submit/${form._id}`;
    expect((await sendUrlEncoded(platform, path, `who=${'x'.repeat(1_100_000)}`)).status).toBe(413);
    expect(
      (await sendUrlEncoded(platform, path, '<x/>', { 'content-type': 'text/xml' })).status,
    ).toBe(415);
  });
});

it('answers 404 for ids that nothing has, in any shape', async () => {
  for (const id of ['nothing', '01890a5d-ac96-774b-bcce-b302099a8057', '%00', "'; drop table"]) {
    const path = encodeURIComponent(id);
    expect((await submit(path, {})).status, id).toBe(404);
    for (const address of [
      `/admin/forms/${path}`,
      `/admin/forms/${path}/submissions`,
      `/admin/forms/submissions/${path}`,
    ])
      expect((await platform.admin.get(address)).status, address).toBe(404);
  }
});

it('is the same form with its id in capitals, also once it is switched off', async () => {
  const { _id } = await createForm(platform.admin);
  const capitals = _id.toUpperCase();
  const values = { email: 'a@b.cd', message: 'x' };
  const statuses = async () =>
    Promise.all([_id, capitals].map(async (id) => (await submit(id, values)).status));
  expect(await statuses()).toEqual([200, 200]);
  for (const [id, enabled, status] of [
    [_id, false, 404],
    [_id, true, 200],
    [capitals, false, 404],
  ] as const) {
    expect((await platform.admin.put(`/admin/forms/${id}`, { enabled })).status).toBe(200);
    expect(await statuses()).toEqual([status, status]);
  }
});

it('wants a signed-in user where the form says so', async () => {
  const form = await createForm(platform.admin, { authRequired: true });
  const values = { email: 'a@b.cd', message: 'x' };
  expect((await submit(form._id, values)).status).toBe(401);
  const user = await platform.registerUser();
  expect((await submit(form._id, values, { token: `${user.accessToken}x` })).status).toBe(401);
  expect((await submit(form._id, values, { token: user.accessToken })).status).toBe(200);
  expect(await submissionsOf(platform.admin, form._id)).toMatchObject([{ user: user.userId }]);
});

it('closes at its time, and when it is full, also for fifty at once', async () => {
  const values = { email: 'a@b.cd', message: 'x' };
  const late = await createForm(platform.admin, { closesAt: '2020-01-01T00:00:00Z' });
  expect(await submit(late._id, values)).toMatchObject({
    status: 410,
    body: { code: 'FORM_CLOSED' },
  });
  const small = await createForm(platform.admin, { maxSubmissions: 3 });
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => submit(small._id, { ...values, message: `${i}` })),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
  expect(answers.filter(({ status }) => status === 410)).toHaveLength(47);
  expect(await submissionsOf(platform.admin, small._id)).toHaveLength(3);
});

it('counts one submission that is sent again with its Idempotency-Key once, also fifty times at once', async () => {
  const form = await createForm(platform.admin);
  const values = { email: 'a@b.cd', message: 'x' };
  const headers = { 'idempotency-key': 'the-same' };
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => submit(form._id, values, { headers })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map(({ body }) => body.submissionId)).size).toBe(1);
  expect(answers.filter(({ headers: h }) => h.get('idempotency-replayed') !== 'true')).toHaveLength(
    1,
  );
  const other = await submit(form._id, { ...values, message: 'y' }, { headers });
  expect(other).toMatchObject({ status: 409, body: { code: 'IDEMPOTENCY_KEY_REUSED' } });
  expect(await submissionsOf(platform.admin, form._id)).toHaveLength(1);
  const elsewhere = await createForm(platform.admin);
  expect((await submit(elsewhere._id, values, { headers })).body.submissionId).not.toBe(
    answers[0]?.body.submissionId,
  );
});

it('keeps its submissions when it is deleted, unless they shall go with it', async () => {
  const { admin } = platform;
  for (const cascade of [false, true]) {
    const form = await createForm(admin);
    const { body } = await submit(form._id, { email: 'a@b.cd', message: 'x' });
    await admin.delete(`/admin/forms/${form._id}`, { query: { cascade } });
    expect((await submit(form._id, { email: 'a@b.cd', message: 'x' })).status).toBe(404);
    const { status } = await admin.get(`/admin/forms/submissions/${body.submissionId}`);
    expect(status).toBe(cascade ? 404 : 200);
  }
});

it('is listed by time, spam and content', async () => {
  const form = await createForm(platform.admin);
  for (const message of ['first', 'second %', 'third'])
    await submit(form._id, { email: 'a@b.cd', message });
  const found = async (query: object) =>
    (await submissionsOf(platform.admin, form._id, query)).map(({ data }) => data.message);
  expect(await found({})).toEqual(['third', 'second %', 'first']);
  expect(await found({ sort: 'createdAt', skip: 1, limit: 1 })).toEqual(['second %']);
  expect(await found({ search: 'IRS' })).toEqual(['first']);
  expect(await found({ search: '%' })).toEqual(['second %']);
  // Names of fields are no content.
  expect(await found({ search: 'email' })).toEqual([]);
  expect(await found({ possibleSpam: true })).toEqual([]);
  expect(await found({ to: '2020-01-01T00:00:00Z' })).toEqual([]);
  expect(await found({ from: '2020-01-01T00:00:00Z' })).toHaveLength(3);
});
