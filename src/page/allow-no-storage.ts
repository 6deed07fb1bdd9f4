import { replaceForbiddenStorage } from './memory-storage.ts';

// Imported before all that asks for storage while it is read.
replaceForbiddenStorage(globalThis);
