/** Forms (section 7), in the shapes of the 0.16 line. */
import { list, number, type Row, some, text } from './row.ts';

export const forms: readonly Row[] = [
  {
    call: 'POST /forms/forms',
    body: {
      name: 'panel form',
      fields: { email: 'String', age: 'Number' },
      forwardTo: 'panel@example.com',
      emailField: 'email',
      enabled: true,
    },
  },
  {
    call: 'GET /forms/forms?skip=0&limit=10&search=panel',
    reads: {
      forms: some({
        _id: text,
        name: 'panel form',
        fields: { email: 'String', age: 'Number' },
        forwardTo: 'panel@example.com',
        emailField: 'email',
        enabled: true,
      }),
      count: number,
    },
    keep: ({ forms: [form] }) => ({ form }),
  },
  { call: 'PUT /forms/{form._id}', body: ({ form }: { form: object }) => form },
  { call: 'GET /forms/replies/{form._id}', reads: { replies: list } },
  { call: 'DELETE /forms/forms?ids[]={form._id}' },
  {
    call: 'GET /config/forms',
    reads: { config: { captcha: false } },
    keep: ({ config }) => ({ formsConfig: config }),
  },
  {
    call: 'PATCH /config/forms',
    body: ({ formsConfig }: { formsConfig: object }) => ({ config: formsConfig }),
  },
];
