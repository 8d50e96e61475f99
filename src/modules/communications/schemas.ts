/** The data that communications owns, in the schema language. */
import type { SchemaDefinition } from '../../data/schema/language/definition.ts';

/** A mail template. Those that modules bring are rows too, so that operators can change them. */
export const emailTemplateSchema = {
  name: 'EmailTemplate',
  fields: {
    name: { type: 'String', required: true, validate: { maxLength: 100 } },
    subject: { type: 'String', required: true, validate: { maxLength: 500 } },
    body: {
      type: 'String',
      required: true,
      validate: { maxLength: 200_000 },
      description: 'HTML with {{variables}}.',
    },
    sender: {
      type: 'String',
      validate: { maxLength: 254 },
      description: 'With or without a domain.',
    },
    variables: ['String'],
    externalManaged: { type: 'Boolean', required: true, default: false },
    externalId: 'String',
    jsonTemplate: 'String',
    builtIn: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Whether a module brought it. Deleting it brings its first text back.',
    },
    edited: {
      type: 'Boolean',
      required: true,
      default: false,
      description: 'Whether an operator changed what the module brought.',
    },
  },
  modelOptions: {
    timestamps: true,
    indexes: [{ fields: ['name'], options: { unique: true } }],
    conduit: {
      cms: { enabled: false },
      permissions: {
        extendable: true,
        canCreate: false,
        canModify: 'ExtensionOnly',
        canDelete: false,
      },
    },
  },
} as const satisfies SchemaDefinition;
