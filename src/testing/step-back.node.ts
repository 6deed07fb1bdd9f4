// Kernels on a software adapter take all of a machine. What runs beside them and is bound in time comes first.
import { setPriority } from 'node:os';

try {
  setPriority(5);
} catch {
  // This system has no such thing: all share it evenly.
}
